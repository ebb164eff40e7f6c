// The loss scale grows after enough good steps and shrinks after a bad one, within its bounds.
#include "ops/loss_scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

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

/// Packs of 16 bytes are read where memory begins and ends with one, and single values elsewhere.
TEST_F(CudaLossScale, FindsAGradientWhereverItIs) {
  const auto finds = [&](const std::vector<float>& gradients, int64_t begin) {
    const auto count = static_cast<int64_t>(gradients.size());
    const Tensor all = tensor_of(*device_, {count}, gradients);
    ops::find_nonfinite(all.window(begin, {count - begin}, Layout::plain), state_.found);
    int32_t found = 0;
    device_->download(&found, state_.found.raw(), sizeof found);
    state_.found.fill_zero();
    return found != 0;
  };
  for (const int64_t count : {1, 3, 4, 1000, 4097, 70'000})
    for (const int64_t begin : {int64_t{0}, std::min<int64_t>(count - 1, 1), std::min<int64_t>(count - 1, 16)}) {
      std::vector<float> gradients(static_cast<size_t>(count), 1);
      EXPECT_FALSE(finds(gradients, begin)) << count;
      for (const int64_t place : {begin, (begin + count) / 2, count - 1})
        for (const float value : {kInfinity, -kInfinity, std::nanf("")}) {
          gradients[static_cast<size_t>(place)] = value;
          EXPECT_TRUE(finds(gradients, begin)) << place << " of " << count << " from " << begin;
          gradients[static_cast<size_t>(place)] = 1;
        }
    }
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
