// Models cut into stages compute what one device with the same micro-batches computes, bit for bit, by either
// schedule; replicas of a pipeline what ddp computes.
#include <gtest/gtest.h>

#include <algorithm>

#include "models/layer_list.h"
#include "models/layered_net.h"
#include "models/layers_of.h"
#include "parallel/digits.h"
#include "parallel/trained_state.h"
#include "support/expect_error.h"

namespace dptrain::parallel {
namespace {

constexpr auto kGpipe = PipelineSchedule::gpipe;
constexpr auto k1f1b = PipelineSchedule::one_forward_one_back;

/// Batches of 26 samples, and one of 7 at the end: with four micro-batches none is like the other, with eight one of
/// the last batch's is left out.
constexpr int64_t kBatch = 26, kSamples = 3 * kBatch + 7, kSteps = 4;

Trained trained(Strategy& strategy, int64_t micro_batches, int64_t steps = kSteps) {
  auto losses = train(strategy, digits(kSamples, 10), steps, kBatch, 0.05, micro_batches);
  return {strategy.state_dict(), std::move(losses)};
}

StrategyOptions pipeline(const std::vector<std::string>& stages, PipelineSchedule schedule, int64_t micro_batches) {
  return {.name = "model_parallel",
          .devices = static_cast<int>(stages.size()),
          .sgd = {.momentum = 0.9},
          .pipeline = {.cut = {.entries = stages}, .schedule = schedule, .micro_batches = micro_batches}};
}

StrategyOptions of_replicas(StrategyOptions options, int replicas) {
  options.name = "hybrid";
  options.devices *= replicas;
  options.pipeline.replicas = replicas;
  return options;
}

std::unique_ptr<Strategy> of_layers(const std::string& written, const StrategyOptions& options) {
  StrategyContext context = context_of(options);
  const auto layers = models::layers_of(written);
  context.replica.model = {.name = "layers",
                           .build = [layers](const nn::LayerOptions& of, const models::ModelInput& in) {
                             return models::build_layered_net(layers, of, in);
                           }};
  return make_strategy(options, context);
}

/// A small net with batch norms, residuals, dropout and layers without parameters at both ends of the cuts.
std::unique_ptr<Strategy> residual_net(const StrategyOptions& options) {
  return of_layers(
      "[avg_pool: 2, conv: {channels: 16, kernel: 3, padding: 1}, batch_norm, relu, "
      "residual: {layers: [conv: {channels: 16, kernel: 3, padding: 1}, batch_norm, relu, "
      "conv: {channels: 16, kernel: 3, padding: 1}, batch_norm]}, relu, max_pool: 2, "
      "conv: {channels: 32, kernel: 3, stride: 2}, relu, dropout: 0.3, flatten, linear: 24, tanh, linear: classes]",
      options);
}

const StrategyOptions kSingle = {.name = "single", .devices = 1, .sgd = {.momentum = 0.9}};

TEST(Pipeline, LenetEndsInTheBitsOfOneDevice) {
  for (const int64_t micro_batches : {4, 8}) {
    const Trained one = trained(*make_strategy(kSingle), micro_batches);
    for (const std::vector<std::string>& stages :
         std::vector<std::vector<std::string>>{{"1", "2"}, {"2", "1"}, {"1", "1", "1"}, {"conv1", "fc1"}})
      for (const auto schedule : {kGpipe, k1f1b}) {
        SCOPED_TRACE(::testing::Message() << stages.size() << " stages, the second from " << stages[1] << ", "
                                          << schedule_name(schedule) << ", " << micro_batches << " micro-batches");
        expect_same_bits(trained(*make_strategy(pipeline(stages, schedule, micro_batches)), micro_batches), one);
      }
  }
}

TEST(Pipeline, ANetWithBatchNormsEndsInTheBitsOfOneDevice) {
  const Trained one = trained(*residual_net(kSingle), 4);
  for (const std::vector<std::string>& stages : std::vector<std::vector<std::string>>{
           {"avg_pool1", "max_pool1"}, {"avg_pool1", "conv1", "conv2"}, {"avg_pool1", "bn1", "flatten1", "fc2"}})
    for (const auto schedule : {kGpipe, k1f1b}) {
      SCOPED_TRACE(::testing::Message() << stages.size() << " stages, " << schedule_name(schedule));
      expect_same_bits(trained(*residual_net(pipeline(stages, schedule, 4)), 4), one);
    }
}

TEST(Pipeline, AccumulationGoesThroughThePipelineToo) {
  // Two accumulations of four micro-batches each.
  const Trained one = trained(*make_strategy(kSingle), 8);
  for (const auto schedule : {kGpipe, k1f1b})
    expect_same_bits(trained(*make_strategy(pipeline({"1", "2"}, schedule, 4)), 8), one);
}

TEST(Pipeline, UpdatesThatNeedAllGradientsSeeThoseOfAllStages) {
  const auto with = [](StrategyOptions options) {
    options.adam = optim::AdamSettings{.weight_decay = 0.1, .decoupled = true};
    options.clip_norm = 0.5;
    options.average_decay = 0.5;
    options.label_smoothing = 0.1;
    return options;
  };
  const auto single = make_strategy(with(kSingle));
  const Trained one = trained(*single, 4);
  const Datasets data = digits(10, 200);
  const Score by_average = *single->evaluate(*data.test, [] { return false; });
  const auto cut = make_strategy(with(pipeline({"1", "1", "1"}, k1f1b, 4)));
  const Trained several = trained(*cut, 4);
  // The norm is added up in another order, in double.
  for (size_t step = 0; step < one.losses.size(); ++step)
    EXPECT_NEAR(several.losses[step], one.losses[step], 1e-6 * one.losses[step]) << "step " << step + 1;
  EXPECT_NEAR(cut->evaluate(*data.test, [] { return false; })->mean_loss(), by_average.mean_loss(),
              1e-6 * by_average.mean_loss());
  expect_same_bits(cut->state_dict(), several.state);
}

TEST(Pipeline, EvaluatesToTheSameNumbers) {
  const Datasets data = digits(kSamples, 333);
  const auto score_of = [&](Strategy& strategy) {
    train(strategy, data, 2, kBatch, 0.05, 4);
    return *strategy.evaluate(*data.test, [] { return false; });
  };
  const Score one = score_of(*residual_net(kSingle));
  const Score several = score_of(*residual_net(pipeline({"avg_pool1", "bn1", "flatten1"}, k1f1b, 4)));
  EXPECT_EQ(several.samples, 333);
  EXPECT_EQ(several.outputs[0].loss_sum, one.outputs[0].loss_sum);
  EXPECT_EQ(several.outputs[0].correct, one.outputs[0].correct);
  EXPECT_EQ(several.outputs[0].counted, one.outputs[0].counted);
}

TEST(Pipeline, EvaluationStopsBetweenBlocks) {
  const Datasets data = digits(10, 2000);
  const auto strategy = make_strategy(pipeline({"1", "2"}, k1f1b, 2));
  int asked = 0;
  EXPECT_FALSE(strategy->evaluate(*data.test, [&] { return ++asked > 2; }).has_value());
  EXPECT_EQ(asked, 3) << "it isn't asked again";
  EXPECT_TRUE(strategy->evaluate(*data.test, [] { return false; }).has_value()) << "it can be asked again";
}

TEST(Pipeline, GoesOnWhereOtherStrategiesWereAndTheyWhereItWas) {
  const auto options_of = [](StrategyOptions options) {
    options.adam = optim::AdamSettings{};
    options.average_decay = 0.9;
    return options;
  };
  const auto single = [&] { return residual_net(options_of(kSingle)); };
  const auto cut = [&] { return residual_net(options_of(pipeline({"avg_pool1", "bn1", "flatten1"}, kGpipe, 4))); };
  const auto on = [](Strategy& strategy) { return trained(strategy, 4, 2); };
  const auto whole = single();
  on(*whole);
  const TrainingState half = whole->training_state();
  const Trained end = on(*whole);
  const auto from = [&](std::unique_ptr<Strategy> first, std::unique_ptr<Strategy> second) {
    on(*first);
    const TrainingState state = first->training_state();
    expect_same_bits(state.model, half.model);
    expect_same_bits(state.optimizer, half.optimizer);
    expect_same_bits(state.average, half.average);
    second->restore(state);
    expect_same_bits(on(*second), end);
  };
  from(cut(), single());
  from(single(), cut());
}

TEST(Pipeline, ReplicasEndInTheBitsOfDdp) {
  // A batch of 7 in four micro-batches leaves a replica of two without samples, and one of three several times.
  for (const int replicas : {2, 3}) {
    StrategyOptions ddp{.name = "ddp", .devices = replicas, .sgd = {.momentum = 0.9}};
    const Trained lenet = trained(*make_strategy(ddp), 4), residual = trained(*residual_net(ddp), 4);
    for (const auto schedule : {kGpipe, k1f1b}) {
      SCOPED_TRACE(::testing::Message() << replicas << " replicas, " << schedule_name(schedule));
      expect_same_bits(trained(*make_strategy(of_replicas(pipeline({"1", "2"}, schedule, 4), replicas)), 4), lenet);
      expect_same_bits(trained(*residual_net(of_replicas(pipeline({"avg_pool1", "conv2"}, schedule, 4), replicas)), 4),
                       residual);
    }
  }
}

TEST(Pipeline, ReplicasEvaluateByTheFirstOnesStatisticsAndTheAverage) {
  const Datasets data = digits(kSamples, 333);
  const auto score_of = [&](Strategy& strategy) {
    train(strategy, data, 2, kBatch, 0.05, 4);
    return strategy.evaluate(*data.test, [] { return false; })->outputs[0].loss_sum;
  };
  StrategyOptions ddp{.name = "ddp", .devices = 2}, hybrid = of_replicas(pipeline({"avg_pool1", "conv2"}, k1f1b, 4), 2);
  hybrid.sgd = ddp.sgd;
  ddp.average_decay = hybrid.average_decay = 0.5;
  EXPECT_EQ(score_of(*residual_net(hybrid)), score_of(*residual_net(ddp)));
}

TEST(Pipeline, TheCutByMeasuredTimeChangesNoBit) {
  StrategyOptions automatic = pipeline({"1", "1", "1"}, k1f1b, 4);
  automatic.pipeline.cut = {};
  expect_same_bits(trained(*residual_net(automatic), 4), trained(*residual_net(kSingle), 4));
}

TEST(Pipeline, ANetThatOneDeviceCantHoldTrainsOnTwo) {
  // Two layers of 614,656 weights each, with as many gradients and as much momentum.
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
}

TEST(Pipeline, OneForwardOneBackHoldsFewerActivationsOnTheFirstStage) {
  const auto activations = [](PipelineSchedule schedule) {
    const auto strategy = make_strategy(pipeline({"1", "2"}, schedule, 8));
    trained(*strategy, 8);
    return strategy->take_costs(0).memory_at_peak[MemoryPurpose::activations];
  };
  // Two micro-batches instead of eight, of 3 samples or 4, whose outputs are [20, 12, 12].
  EXPECT_LT(activations(k1f1b), activations(kGpipe) - int64_t{6 * 3 * 4} * 20 * 12 * 12);
}

TEST(Pipeline, EachDeviceHoldsItsStageAlone) {
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

TEST(Pipeline, OnlyActivationsAndTheirGradientsCross) {
  const auto strategy = make_strategy(pipeline({"1", "2"}, k1f1b, 4));
  train(*strategy, digits(26, 10), 1, 26, 0.05, 4);
  // [n, 20, 12, 12] each way.
  const int64_t boundary = 4 * 26 * 20 * 12 * 12;
  for (const int rank : {0, 1}) {
    const CommCounts counts = strategy->take_costs(rank).communication;
    EXPECT_EQ(counts.bytes, boundary);
    EXPECT_EQ(counts.collectives, 0);
  }
}

TEST(Pipeline, ItsFiguresNameTheStagesAndTheWaiting) {
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

TEST(Pipeline, AStageThatFailsEndsAllWithItsCause) {
  // The second stage has the linear layer and no room for its optimizer's work; the first waits for it.
  StrategyOptions options = pipeline({"1", "2"}, k1f1b, 4);
  const auto strategy = make_strategy(options);
  const auto& allocator = strategy->device(1).allocator();
  options.memory_limit_bytes = allocator.in_use().total_bytes() + 4096;
  testing::expect_error(ExitCode::device, {"rank 1 (cpu:1), step 1", "a limit of"},
                        [&] { trained(*make_strategy(options), 4); });
}

TEST(Pipeline, EachSampleCountsOnceOnTheLastStage) {
  const auto strategy = make_strategy(of_replicas(pipeline({"1", "2"}, k1f1b, 4), 2));
  train(*strategy, digits(26, 10), 1, 26, 0.05, 4);
  std::vector<int64_t> samples;
  for (int rank = 0; rank < 4; ++rank) samples.push_back(strategy->take_costs(rank).samples);
  EXPECT_EQ(samples[0] + samples[2], 0);
  EXPECT_GT(samples[1], 0);
  EXPECT_EQ(samples[1] + samples[3], 26);
}

}  // namespace
}  // namespace dptrain::parallel
