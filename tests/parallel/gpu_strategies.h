#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "device/cuda_probe.h"
#include "parallel/digits.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {

inline constexpr DeviceId kGpu = {DeviceKind::cuda, 0};

/// GPU 0, and a second GPU if there is one.
inline std::vector<DeviceId> two_gpus() {
  const auto gpus = cuda_devices();
  return {kGpu, {DeviceKind::cuda, gpus[gpus.size() > 1 ? 1 : 0].index}};
}

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

  struct Outcome {
    Trained trained;
    std::vector<int64_t> graph_steps;  ///< graph_steps of each rank
  };
  /// An epoch of two steps of 16 samples, in micro-batches of 4, and one step of 7, in micro-batches of 2, 2, 2 and 1.
  static std::vector<double> train_epoch(Strategy& strategy, const ImageDatasets& data) {
    return train(strategy, data, 3, 16, 0.05, 4);
  }
  /// The result of three such epochs.
  static Outcome outcome(const StrategyOptions& options, const ImageDatasets& data = digits(39, 10)) {
    const auto strategy = make_strategy(options);
    Outcome outcome;
    for (int epoch = 0; epoch < 3; ++epoch)
      std::ranges::copy(train_epoch(*strategy, data), std::back_inserter(outcome.trained.losses));
    outcome.trained.state = strategy->state_dict();
    for (int rank = 0; rank < strategy->ranks(); ++rank)
      outcome.graph_steps.push_back(strategy->take_costs(rank).graph_steps);
    return outcome;
  }
  /// The peak memory of each rank in the last of three such epochs.
  static std::vector<int64_t> peaks(StrategyOptions options, bool records) {
    options.records = records;
    const auto strategy = make_strategy(options);
    std::vector<int64_t> bytes(options.list.size());
    for (int epoch = 0; epoch < 3; ++epoch) {
      train_epoch(*strategy, digits(39, 10));
      for (size_t rank = 0; rank < bytes.size(); ++rank)
        bytes[rank] = strategy->take_costs(static_cast<int>(rank)).peak_bytes;
    }
    return bytes;
  }
  /// Expects that on GPUs all steps but the first of each size are graphs, and that graphs change no bit.
  static void expect_graphs_alike(StrategyOptions options, const ImageDatasets& data = digits(39, 10)) {
    options.micro_batches = options.pipeline.micro_batches = 4;
    const Outcome recorded = outcome(options, data);
    for (size_t rank = 0; rank < options.list.size(); ++rank)
      EXPECT_EQ(recorded.graph_steps[rank], options.list[rank].kind == DeviceKind::cuda ? 7 : 0) << "rank " << rank;
    options.records = false;
    const Outcome done = outcome(options, data);
    EXPECT_EQ(done.graph_steps, std::vector<int64_t>(options.list.size(), 0));
    expect_same_bits(recorded.trained, done.trained);
  }
};

}  // namespace dptrain::parallel
