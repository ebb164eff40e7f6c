// Batch norms under `hybrid`: the ranks of a stage share statistics as the ranks of ddp do, bit for bit. No rank waits
// for a replica without samples of a micro-batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "parallel/digits.h"
#include "parallel/pipeline_schedules.h"
#include "parallel/residual_net.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace hybrid_batch_norm_test {

/// Batches of 14 and one of 5. In four micro-batches the last batch leaves one of two replicas without samples, and one
/// or two of three. In eight, some of its micro-batches have no samples at all.
constexpr int64_t kBatch = 14, kSamples = 2 * kBatch + 5, kSteps = 3;

/// Cuts of residual_net: one with batch norms in every stage, and one without any in the last stage, which must still
/// know that the first stage shares statistics.
const std::vector<std::vector<std::string>> kCuts = {{"conv1", "residual2"}, {"conv1", "global_avg_pool1"}};

struct Outcome {
  Trained trained;
  std::optional<double> spread;
};

/// A strategy with a short deadline, so that an endless wait for another rank fails soon.
std::unique_ptr<Strategy> with_deadline(const StrategyOptions& options) {
  StrategyContext context = context_of(options);
  context.team.timeout_s = 60;
  return make_strategy(options, context);
}

Outcome outcome(const StrategyOptions& options, int64_t samples = kSamples, int64_t steps = kSteps) {
  const auto strategy = with_deadline(options);
  Outcome result;
  result.trained.losses = train(*strategy, digits(samples, 10), steps, kBatch, 0.05, options.micro_batches);
  result.spread = strategy->statistics_spread();
  result.trained.state = strategy->state_dict();
  return result;
}

StrategyOptions net_on(const char* name, int devices, BatchNormMode mode, int64_t micro_batches) {
  return {.name = name,
          .net = residual_net(),
          .devices = devices,
          .sgd = {.momentum = 0.9},
          .micro_batches = micro_batches,
          .batch_norm = mode};
}

StrategyOptions hybrid_of(int replicas, const std::vector<std::string>& cut, PipelineSchedule schedule,
                          const StrategyOptions& ddp) {
  StrategyOptions options = ddp;
  options.name = "hybrid";
  options.devices = replicas * static_cast<int>(cut.size());
  options.pipeline = {
      .cut = {.entries = cut}, .schedule = schedule, .micro_batches = ddp.micro_batches, .replicas = replicas};
  return options;
}

class HybridBatchNorm : public ::testing::TestWithParam<BatchNormMode> {};

TEST_P(HybridBatchNorm, EndsInTheBitsOfDdp) {
  for (const int replicas : {2, 3})
    for (const int64_t micro_batches : {4, 8}) {
      const StrategyOptions ddp = net_on("ddp", replicas, GetParam(), micro_batches);
      const Outcome expected = outcome(ddp);
      for (const auto& cut : kCuts)
        for (const auto schedule : kSchedulesOfOneStage) {
          SCOPED_TRACE(::testing::Message() << replicas << " replicas, " << micro_batches << " micro-batches, "
                                            << schedule_name(schedule) << ", cut at " << cut[1]);
          const Outcome got = outcome(hybrid_of(replicas, cut, schedule, ddp));
          expect_same_bits(got.trained, expected.trained);
          EXPECT_EQ(got.spread, expected.spread);
        }
      // Each device has two stages, and all but the last stage have batch norms.
      StrategyOptions around = hybrid_of(replicas, {"1", "1"}, kInterleaved, ddp);
      around.pipeline.cut.entries = {"conv1", "residual1", "residual2", "global_avg_pool1"};
      around.pipeline.stages_per_device = 2;
      SCOPED_TRACE(::testing::Message() << replicas << " replicas, " << micro_batches << " micro-batches, interleaved");
      const Outcome got = outcome(around);
      expect_same_bits(got.trained, expected.trained);
      EXPECT_EQ(got.spread, expected.spread);
    }
}

TEST_P(HybridBatchNorm, GoesOnFromACheckpointInTheSameBits) {
  const StrategyOptions options = hybrid_of(2, kCuts[0], k1f1b, net_on("ddp", 2, GetParam(), 4));
  const auto whole = with_deadline(options), resumed = with_deadline(options);
  const Datasets data = digits(2 * kBatch, 30);
  train(*whole, data, 2, kBatch, 0.05, 4);
  resumed->restore(whole->training_state());
  // Reading the state changes no bit of later steps either.
  whole->evaluate(*data.test, {.stopped = [] { return false; }});
  whole->statistics_spread();
  train(*whole, data, 2, kBatch, 0.05, 4);
  train(*resumed, data, 2, kBatch, 0.05, 4);
  expect_same_bits(resumed->state_dict(), whole->state_dict());
}

TEST_P(HybridBatchNorm, IsAllTheSameInOnePipeline) {
  const StrategyOptions single = net_on("single", 1, BatchNormMode::local, 4);
  StrategyOptions pipeline = hybrid_of(1, {"conv1", "residual1", "residual2"}, k1f1b, single);
  pipeline.name = "model_parallel";
  pipeline.batch_norm = GetParam();
  const Outcome got = outcome(pipeline);
  expect_same_bits(got.trained, outcome(single).trained);
  EXPECT_EQ(got.spread, std::nullopt) << "one device has them";
}

INSTANTIATE_TEST_SUITE_P(All, HybridBatchNorm, ::testing::ValuesIn(kBatchNormModes),
                         [](const auto& test) { return std::string(batch_norm_mode_name(test.param)); });

/// A learning rate for plain SGD. It leaves so little of the weights that a step's gradients can be read from them with
/// float32's own precision.
constexpr double kAllGradient = 65536;

State state_after_one_step(const StrategyOptions& options, int64_t batch) {
  const auto strategy = with_deadline(options);
  train(*strategy, digits(batch, 10), 1, batch, kAllGradient, options.micro_batches);
  return strategy->state_dict();
}

TEST(HybridBatchNormSync, AStepIsThatOfOneDevice) {
  // Some batches have fewer samples than there are replicas and micro-batches.
  for (const int64_t batch : {22, 5, 2, 1}) {
    SCOPED_TRACE(::testing::Message() << "a batch of " << batch);
    StrategyOptions single = net_on("single", 1, BatchNormMode::local, 4);
    single.sgd = {};
    StrategyOptions hybrid = hybrid_of(3, kCuts[0], k1f1b, single);
    hybrid.batch_norm = BatchNormMode::sync;
    const State expected = state_after_one_step(single, batch), got = state_after_one_step(hybrid, batch);
    hybrid.batch_norm = BatchNormMode::local;
    const State local = state_after_one_step(hybrid, batch);
    const auto distance = [&](const State& state) {
      double apart = 0, norm = 0;
      for (size_t t = 0; t < expected.size(); ++t)
        for (size_t i = 0; i < expected[t].values.size(); ++i) {
          apart += std::pow(double{state[t].values[i]} - expected[t].values[i], 2);
          norm += std::pow(double{expected[t].values[i]}, 2);
        }
      return std::sqrt(apart / norm);
    };
    // Gradients go through five batch norms; each adds a few rounding errors of 6e-8.
    EXPECT_LE(distance(got), 1e-5);
    if (batch < 5) continue;  // a replica has no sample, or one
    EXPECT_GT(distance(local), 0.05) << "replicas' own statistics are others";
  }
}

TEST(HybridBatchNormSync, EveryMicroBatchCostsWhatItDoesUnderDdp) {
  // The batch divides evenly, so that no empty micro-batch crosses a boundary under sync alone.
  constexpr int kReplicas = 2;
  constexpr int64_t kMicroBatches = 4;
  const auto sent = [](BatchNormMode mode) {
    const StrategyOptions ddp = net_on("ddp", kReplicas, mode, kMicroBatches);
    const auto strategy = with_deadline(hybrid_of(kReplicas, kCuts[0], k1f1b, ddp));
    train(*strategy, digits(16, 10), 1, 16, 0.05, kMicroBatches);
    CommCounts all;
    for (int rank = 0; rank < strategy->ranks(); ++rank) {
      const CommCounts own = strategy->take_costs(rank).communication;
      all = {.bytes = all.bytes + own.bytes, .collectives = all.collectives + own.collectives};
    }
    return all;
  };
  int64_t floats = 0;
  for (const int64_t channels : kResidualNetChannels) floats += 4 * channels + 1;
  const CommCounts local = sent(BatchNormMode::local), sync = sent(BatchNormMode::sync);
  EXPECT_EQ(sync.bytes - local.bytes, kMicroBatches * 2 * (kReplicas - 1) * 4 * floats);
  EXPECT_EQ(sync.collectives - local.collectives,
            kMicroBatches * 3 * static_cast<int64_t>(std::size(kResidualNetChannels)) * kReplicas);
}

}  // namespace hybrid_batch_norm_test
}  // namespace dptrain::parallel
