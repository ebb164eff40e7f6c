#include "ops/divisor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>

namespace dptrain::ops {
namespace divisor_test {

template <class I>
void expect_quotients(I by) {
  const Divisor<I> divisor(by);
  EXPECT_EQ(divisor.by(), by);
  const I most = std::numeric_limits<I>::max();
  const auto expect = [&](I number) { EXPECT_EQ(divisor.quotient(number), number / by) << number << " / " << by; };
  // Values where a quotient changes, and both ends of the range.
  for (I k = 0; k < 40; ++k) {
    expect(k);
    expect(most - k);
    if (const I multiple = most / by / 40 * k * by; multiple > 0) {
      expect(multiple - 1);
      expect(multiple);
    }
  }
  std::mt19937_64 random(static_cast<uint64_t>(by));
  for (int draw = 0; draw < 200; ++draw) expect(static_cast<I>(random() & static_cast<uint64_t>(most)));
}

TEST(DivisorTest, DividesAsTheProcessorDoes) {
  for (int32_t by = 1; by <= 3000; ++by) expect_quotients(by);
  for (int bit = 12; bit < 31; ++bit)
    for (const int32_t near : {-1, 0, 1}) expect_quotients((int32_t{1} << bit) + near);
  expect_quotients(std::numeric_limits<int32_t>::max());
  for (const int64_t by : {int64_t{1}, int64_t{7}, int64_t{1} << 40}) expect_quotients(by);
}

}  // namespace divisor_test
}  // namespace dptrain::ops
