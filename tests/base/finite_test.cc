#include "base/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

namespace dptrain {
namespace {

TEST(AreFinite, ANumberThatIsntIsSeenWhereverItIs) {
  using Limits = std::numeric_limits<float>;
  EXPECT_TRUE(are_finite({}));
  for (const size_t count : {1, 7, 33, 100}) {
    std::vector<float> values(count, -Limits::max());
    values[count / 2] = Limits::denorm_min();
    EXPECT_TRUE(are_finite(values));
    for (const float other : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), -Limits::signaling_NaN()})
      for (size_t at = 0; at < count; ++at) {
        const float before = std::exchange(values[at], other);
        EXPECT_FALSE(are_finite(values)) << other << " at " << at << " of " << count;
        values[at] = before;
      }
  }
}

}  // namespace
}  // namespace dptrain
