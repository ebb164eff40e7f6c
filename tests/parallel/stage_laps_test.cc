// A GPU's clock measures how long its stages' passes took and how long they waited, recorded or not.
#include "parallel/stage_laps.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "device/cuda_probe.h"
#include "ops/delay.h"
#include "parallel/gpu_strategies.h"
#include "parallel/recorded_section.h"

namespace dptrain::parallel {
namespace stage_laps_test {

class CudaStageLaps : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices().empty()) GTEST_SKIP() << "no GPU: " << cuda_absence();
    device_ = open_device(kGpu);
    device_->enter_thread();
    late_ = Tensor::empty(*device_, {1}, {.dtype = DType::i64});
    const int64_t nanoseconds = 10'000'000;
    device_->upload(late_.raw(), &nanoseconds, sizeof nanoseconds);
    ops::delay(late_);  // loads the kernel
    device_->synchronize();
  }
  /// Seconds that the GPU takes for the work.
  static constexpr double kLate = 0.01;

  std::unique_ptr<Device> device_;
  Tensor late_;
};

TEST_F(CudaStageLaps, AreAddedUpByStage) {
  using Of = StageLaps::Of;
  StageLaps laps(*device_, 2);
  RecordedSection backward(*device_, device_->allocator().in_use(), [&] {
    laps.add(0, Of::waiting);
    ops::delay(late_);
    ops::delay(late_);
    laps.add(0, Of::backward);
  });
  laps.take();
  ops::delay(late_);  // before the step
  device_->synchronize();
  const auto begun = Clock::now();
  laps.begin_step();
  ops::delay(late_);
  laps.add(1, Of::waiting);
  ops::delay(late_);
  laps.add(1, Of::forward);
  for (int step = 0; step < 2; ++step) backward.run();
  device_->synchronize();
  const double whole = seconds_since(begun);
  const auto seconds = laps.take();
  ASSERT_EQ(seconds.size(), 2u);
  EXPECT_GE(seconds[1].waiting, kLate);
  EXPECT_GE(seconds[1].forward, kLate);
  EXPECT_GE(seconds[0].backward, 4 * kLate);
  EXPECT_EQ(seconds[0].forward + seconds[1].backward + seconds[0].backward_weights, 0);
  const double all = seconds[0].waiting + seconds[0].backward + seconds[1].waiting + seconds[1].forward;
  EXPECT_LE(all, whole) << "what came before the step counts, or something twice";
  EXPECT_EQ(laps.take()[0].backward, 0) << "taken twice";
}

}  // namespace stage_laps_test
}  // namespace dptrain::parallel
