// A device that is told to be late is late, and later work waits.

#include "ops/delay.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "support/device_rows.h"
#include "support/test_device.h"

namespace dptrain {
namespace delay_test {

using namespace testing;

class Delay : public ::testing::TestWithParam<DeviceRow> {
 protected:
  double seconds_of(int64_t nanoseconds) {
    const Tensor late = Tensor::empty(*device_, {1}, {.dtype = DType::i64});
    device_->upload(late.raw(), &nanoseconds, sizeof nanoseconds);
    device_->synchronize();
    const auto begun = Clock::now();
    ops::delay(late);
    device_->synchronize();
    return seconds_since(begun);
  }
  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(Delay, IsAsLongAsItSays) {
  seconds_of(0);  // loads the kernel
  EXPECT_GE(seconds_of(50'000'000), 0.05);
  EXPECT_GE(seconds_of(1'000'000), 0.001);
}

TEST_P(Delay, OfNothingIsNone) {
  seconds_of(0);
  double least = 1;
  for (int i = 0; i < 5; ++i) least = std::min(least, seconds_of(0));
  EXPECT_LT(least, 0.05);
}

INSTANTIATE_TEST_SUITE_P(Devices, Delay, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace delay_test
}  // namespace dptrain
