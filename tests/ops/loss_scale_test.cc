// The loss scale grows after enough good steps and shrinks after a bad one, between its bounds.
#include "ops/loss_scale.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/device_rows.h"
#include "support/formula_tensor.h"

namespace dptrain {
namespace loss_scale_test {

using namespace testing;

class CudaLossScale : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices().empty()) GTEST_SKIP() << "no GPU: " << cuda_absence();
    device_ = open_device({DeviceKind::cuda, 0}, {});
    device_->enter_thread();
    state_ = {.scale = tensor_of(*device_, {1}, {1024}),
              .inverse = tensor_of(*device_, {1}, {1.f / 1024}),
              .found = Tensor::zeros(*device_, {1}, {.dtype = DType::i32}),
              .good = Tensor::zeros(*device_, {1}, {.dtype = DType::i32}),
              .skipped = Tensor::zeros(*device_, {1}, {.dtype = DType::i64})};
  }

  void step(float gradient) {
    ops::find_nonfinite(tensor_of(*device_, {3}, {1, gradient, 2}), state_.found);
    ops::update_loss_scale(state_, 3);
  }
  float scale() const {
    EXPECT_EQ(state_.inverse.values()[0], 1 / state_.scale.values()[0]);
    return state_.scale.values()[0];
  }
  int64_t skipped() const {
    int64_t count = 0;
    device_->download(&count, state_.skipped.raw(), sizeof count);
    return count;
  }

  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::unique_ptr<Device> device_;
  ops::LossScaleState state_;
};

TEST_F(CudaLossScale, DoublesAfterEnoughGoodSteps) {
  for (int i = 0; i < 2; ++i) step(1);
  EXPECT_EQ(scale(), 1024);
  step(1);
  EXPECT_EQ(scale(), 2048);
  for (int i = 0; i < 3; ++i) step(1);
  EXPECT_EQ(scale(), 4096);
  EXPECT_EQ(skipped(), 0);
}

TEST_F(CudaLossScale, HalvesAfterABadOneAndCountsAgain) {
  for (int i = 0; i < 2; ++i) step(1);
  step(-kInfinity);
  EXPECT_EQ(scale(), 512);
  for (int i = 0; i < 2; ++i) step(1);
  EXPECT_EQ(scale(), 512);
  step(1);
  EXPECT_EQ(scale(), 1024);
  step(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(scale(), 512);
  EXPECT_EQ(skipped(), 2);
}

TEST_F(CudaLossScale, StaysBetweenOneAndTwoToThe24th) {
  for (int i = 0; i < 20; ++i) step(kInfinity);
  EXPECT_EQ(scale(), 1);
  for (int i = 0; i < 3 * 30; ++i) step(1);
  EXPECT_EQ(scale(), 16777216);
  EXPECT_EQ(skipped(), 20);
}

}  // namespace loss_scale_test
}  // namespace dptrain
