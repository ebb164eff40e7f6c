// Costs that a pipeline reports: memory and samples of each stage, bytes between stages, and waiting times.

#include <gtest/gtest.h>

#include "parallel/pipelines.h"
#include "support/expect_error.h"

namespace dptrain::parallel {
namespace pipeline_costs_test {

TEST(PipelineCosts, ANetThatOneDeviceCantHoldTrainsOnTwo) {
  // Two layers of 614,656 weights each, with gradients and momentum of the same size.
  const auto net = [](const StrategyOptions& options) {
    return of_layers("[flatten, linear: 784, relu, linear: 784, relu, linear: classes]", options);
  };
  StrategyOptions single = kSingle, cut = pipeline({"flatten1", "fc2"}, k1f1b, 4), hybrid = of_replicas(cut, 2);
  single.memory_limit_bytes = cut.memory_limit_bytes = hybrid.memory_limit_bytes = 13'000'000;
  testing::expect_error(ExitCode::device, {"cpu:0", "a limit of"}, [&] { trained(*net(single), 4); });
  EXPECT_NO_THROW(trained(*net(cut), 4));
  EXPECT_NO_THROW(trained(*net(hybrid), 4));
  cut.pipeline.cut = {};
  EXPECT_NO_THROW(trained(*net(cut), 4)) << "cut by what was measured, a stage of the model at a time";
  // Two large layers on one device would be over the limit, and there is a fourth stage.
  StrategyOptions around = cut;
  around.pipeline.schedule = kInterleaved;
  around.pipeline.stages_per_device = 2;
  EXPECT_NO_THROW(trained(*net(around), 4)) << "cut so that each device has one of the large layers";
}

TEST(PipelineCosts, OneForwardOneBackHoldsFewerActivationsOnTheFirstStage) {
  const auto activations = [](PipelineSchedule schedule) {
    const auto strategy = make_strategy(pipeline({"1", "2"}, schedule, 8));
    trained(*strategy, 8);
    return strategy->take_costs(0).memory_at_peak[MemoryPurpose::activations];
  };
  // 1f1b keeps two micro-batches instead of eight, of 3 samples or 4. Each keeps at least the images [1, 28, 28], and
  // one byte for each maximum's place [20, 12, 12].
  EXPECT_LT(activations(k1f1b), activations(kGpipe) - int64_t{6 * 3} * (4 * 28 * 28 + 20 * 12 * 12));
}

/// When the second of two stages begins a forward pass, it has already made a backward pass, and still keeps what the
/// gradients of its weights need.
TEST(PipelineCosts, ZeroBubbleHoldsOneMicroBatchMoreOnTheLastStage) {
  const auto activations = [](PipelineSchedule schedule, int rank) {
    const auto strategy = make_strategy(pipeline({"1", "2"}, schedule, 8));
    trained(*strategy, 8);
    return strategy->take_costs(rank).memory_at_peak[MemoryPurpose::activations];
  };
  EXPECT_EQ(activations(kZeroBubble, 0), activations(k1f1b, 0));
  // Micro-batches have 3 samples or 4. Each sample keeps at least the convolution's input, [20, 12, 12], and fc1's, 800
  // numbers.
  EXPECT_GT(activations(kZeroBubble, 1), activations(k1f1b, 1) + int64_t{3 * 4} * (20 * 12 * 12 + 800) / 2);
  EXPECT_LT(activations(kZeroBubble, 1), activations(kGpipe, 1));
}

/// Of four layers on two devices, the first device has the first and the third, and holds up to five of their
/// micro-batches. Without interleaving it holds two micro-batches of the first two layers. Activations cross three
/// times instead of once.
TEST(PipelineCosts, InterleavedHoldsMoreAndSendsMore) {
  const auto costs_of = [](const StrategyOptions& options) {
    const auto strategy =
        of_layers("[flatten, linear: 800, tanh, linear: 800, tanh, linear: 800, tanh, linear: classes]", options);
    train(*strategy, digits(64, 10), 1, 64, 0.05, 8);
    return strategy->take_costs(0);
  };
  const RankCosts two = costs_of(pipeline({"flatten1", "fc3"}, k1f1b, 8)),
                  around = costs_of(interleaved({"flatten1", "fc2", "fc3", "fc4"}, 2, 8));
  const auto activations = [](const RankCosts& costs) { return costs.memory_at_peak[MemoryPurpose::activations]; };
  EXPECT_GT(activations(around), activations(two));
  EXPECT_LT(activations(around), 2 * activations(two));
  // The first device sends activations of its first stage. Interleaved, it also sends activations of its second one,
  // the third stage, and gradients from there back to the second stage.
  EXPECT_EQ(two.communication.bytes, int64_t{4} * 64 * 800);
  EXPECT_EQ(around.communication.bytes, int64_t{4} * 64 * 800 * 3);
}

TEST(PipelineCosts, EachDeviceHoldsItsStageAlone) {
  const auto strategy = make_strategy(pipeline({"1", "2"}, k1f1b, 4));
  const auto single = make_strategy(kSingle);
  trained(*strategy, 4, 1);
  trained(*single, 4, 1);
  const auto of = [](Strategy& from, int rank) { return from.take_costs(rank).memory_at_peak; };
  const MemoryCounts first = of(*strategy, 0), second = of(*strategy, 1), whole = of(*single, 0);
  for (const auto purpose : {MemoryPurpose::weights, MemoryPurpose::gradients, MemoryPurpose::optimizer}) {
    EXPECT_GT(first[purpose], 0);
    EXPECT_LT(first[purpose], whole[purpose] / 10) << "the first convolution is small";
    EXPECT_LE(first[purpose] + second[purpose], whole[purpose] + 64);
  }
}

TEST(PipelineCosts, OnlyActivationsAndTheirGradientsCross) {
  const auto strategy = make_strategy(pipeline({"1", "2"}, k1f1b, 4));
  train(*strategy, digits(26, 10), 1, 26, 0.05, 4);
  // [n, 20, 12, 12] in each direction.
  for (const int rank : {0, 1}) {
    const CommCounts counts = strategy->take_costs(rank).communication;
    EXPECT_EQ(counts.bytes, 4 * 26 * 20 * 12 * 12);
    EXPECT_EQ(counts.collectives, 0);
  }
}

TEST(PipelineCosts, ClippingAddsUpOneSumOfSquares) {
  const auto bytes_of = [](std::optional<double> clip_norm) {
    StrategyOptions options = pipeline({"1", "1", "1"}, k1f1b, 4);
    options.clip_norm = clip_norm;
    const auto strategy = make_strategy(options);
    train(*strategy, digits(26, 10), 1, 26, 0.05, 4);
    int64_t bytes = 0;
    for (const int rank : {0, 1, 2}) bytes += strategy->take_costs(rank).communication.bytes;
    return bytes;
  };
  EXPECT_EQ(bytes_of(0.5), bytes_of({}) + 2 * (3 - 1) * 128);
}

TEST(PipelineCosts, ItsFiguresNameTheStagesAndTheWaiting) {
  const auto strategy = make_strategy(pipeline({"1", "2"}, k1f1b, 4));
  trained(*strategy, 4);
  const auto figures = strategy->take_pipeline_figures();
  ASSERT_TRUE(figures.has_value());
  EXPECT_EQ(figures->stages, (std::vector<std::vector<std::string>>{{"conv1"}, {"conv2", "fc1"}}));
  EXPECT_EQ(figures->micro_batches, 4);
  EXPECT_EQ(figures->schedule, "1f1b");
  EXPECT_GT(figures->predicted_bubble, 0);
  EXPECT_LT(figures->predicted_bubble, 1);
  ASSERT_TRUE(figures->bubble.has_value());
  EXPECT_GT(*figures->bubble, 0);
  EXPECT_LT(*figures->bubble, 1);
  EXPECT_GT(strategy->take_costs(1).times[Phase::communication], 0);
  EXPECT_FALSE(make_strategy(kSingle)->take_pipeline_figures().has_value());
}

TEST(PipelineCosts, EachSampleCountsOnceOnTheLastStage) {
  const auto strategy = make_strategy(of_replicas(pipeline({"1", "2"}, k1f1b, 4), 2));
  train(*strategy, digits(26, 10), 1, 26, 0.05, 4);
  std::vector<int64_t> samples;
  for (int rank = 0; rank < 4; ++rank) samples.push_back(strategy->take_costs(rank).samples);
  EXPECT_EQ(samples[0] + samples[2], 0);
  EXPECT_GT(samples[1], 0);
  EXPECT_EQ(samples[1] + samples[3], 26);
}

}  // namespace pipeline_costs_test
}  // namespace dptrain::parallel
