#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "device/cuda_probe.h"
#include "parallel/digits.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {

inline constexpr DeviceId kGpu = {DeviceKind::cuda, 0};

/// Skips without a GPU. A single GPU is listed as many times as a test wants GPUs.
class CudaStrategies : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices().empty()) GTEST_SKIP() << "no GPU: " << cuda_absence();
  }

  /// The state and losses after `steps` steps over `samples` digits.
  static Trained trained(const StrategyOptions& options, int64_t steps, int64_t batch, int64_t samples) {
    const auto strategy = make_strategy(options);
    auto losses = train(*strategy, digits(samples, 10), steps, batch, 0.05, options.micro_batches);
    return {strategy->state_dict(), std::move(losses)};
  }
};

}  // namespace dptrain::parallel
