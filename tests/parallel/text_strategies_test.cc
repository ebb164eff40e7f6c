// A text model under every strategy: two losses with separate counts, over parts with different numbers of masked
// tokens.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "device/cuda_probe.h"
#include "parallel/digits.h"
#include "parallel/small_bert.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace text_strategies_test {

/// `micro_batch` is the most samples that a device trains on at once, if that is known.
std::unique_ptr<Strategy> bert_strategy(const StrategyOptions& options, float dropout, int64_t micro_batch = 0) {
  StrategyContext context = context_of(options);
  context.micro_batch_samples = micro_batch;
  context.replica.model = small_bert(2, dropout);
  context.replica.input = {.text = kText};
  return make_strategy(options, context);
}

/// The relative error of sums made in another order: float32 rounds to 2^-24, or 6e-8, in each of the sums of two
/// layers' matrix products, normalizations and softmaxes.
constexpr double kOtherOrder = 1e-6;
/// The same error after some steps of Adam, which moves weights with tiny gradients by the gradients' sign.
constexpr double kOtherOrderAfterSteps = 1e-4;

/// The state and losses after some steps of 13 samples.
Trained trained(const StrategyOptions& options, int64_t steps = 1, double learning_rate = 65536, float dropout = 0.1f) {
  const auto strategy = bert_strategy(options, dropout);
  auto losses = train(*strategy, sentences(13 * steps), steps, 13, learning_rate, options.micro_batches);
  return {.state = strategy->state_dict(), .losses = std::move(losses)};
}

/// The norm of the difference, relative to the movement of `one`. With this learning rate the weights are the
/// gradients.
double relative_difference(const std::vector<nn::NamedValues>& before, const Trained& several, const Trained& one) {
  double difference = 0, norm = 0;
  for (size_t t = 0; t < before.size(); ++t)
    for (size_t i = 0; i < before[t].values.size(); ++i) {
      difference += std::pow(double{several.state[t].values[i]} - one.state[t].values[i], 2);
      norm += std::pow(double{one.state[t].values[i]} - before[t].values[i], 2);
    }
  return std::sqrt(difference / norm);
}

/// Parameters: strategy and devices. 13 samples are uneven on 2 to 4 devices.
class TextStrategies : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  StrategyOptions options() const {
    return {.name = std::get<0>(GetParam()), .devices = std::get<1>(GetParam()), .sgd = {}};
  }
  const StrategyOptions one_ = {.name = "single", .devices = 1};
};

TEST_P(TextStrategies, GradientsAndLossAreThoseOfOneDevice) {
  const auto before = bert_strategy(one_, 0.1f)->state_dict();
  const Trained one = trained(one_);
  for (const int64_t micro_batches : {1, 3, 13}) {  // with 13, some parts have no samples
    SCOPED_TRACE(micro_batches);
    StrategyOptions several = options();
    several.micro_batches = micro_batches;
    const Trained split = trained(several);
    EXPECT_NEAR(split.losses[0], one.losses[0], kOtherOrder * one.losses[0]);
    EXPECT_LE(relative_difference(before, split, one), kOtherOrder);
  }
}

TEST_P(TextStrategies, ARunCanBeRepeatedBitForBit) {
  StrategyOptions several = options();
  several.adam = optim::AdamSettings{};
  const Trained a = trained(several, 5, 0.01), b = trained(several, 5, 0.01);
  EXPECT_EQ(a.losses, b.losses);
  for (size_t t = 0; t < a.state.size(); ++t) EXPECT_TRUE(a.state[t].values == b.state[t].values) << a.state[t].name;
}

TEST_P(TextStrategies, EvaluatesBothLossesOverTheirOwnCounts) {
  StrategyOptions several = options();
  several.adam = optim::AdamSettings{};
  const auto strategy = bert_strategy(several, 0.0f);
  const Datasets data = sentences(600);
  train(*strategy, data, 10, 10, 0.01);
  const auto score = strategy->evaluate(*data.test, {.stopped = [] { return false; }});
  ASSERT_TRUE(score.has_value());
  ASSERT_EQ(score->outputs.size(), 2u);
  EXPECT_EQ(score->samples, 600);
  EXPECT_EQ(score->outputs[1].counted, 600) << "a sample each";
  EXPECT_GT(score->outputs[0].counted, 600) << "masked tokens, not rows";
  EXPECT_LT(score->outputs[0].counted, 600 * kText.sequence / 4);
  EXPECT_DOUBLE_EQ(score->mean_loss(), score->outputs[0].mean_loss() + score->outputs[1].mean_loss());
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<const char*, int>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Single, TextStrategies, ::testing::Values(std::tuple{"single", 1}), case_name);
INSTANTIATE_TEST_SUITE_P(Several, TextStrategies,
                         ::testing::Combine(::testing::Values("data_parallel", "parallel_criterion", "ddp",
                                                              "ddp_sharded", "fsdp", "kvstore", "kvstore_local",
                                                              "kvstore_dist_sync"),
                                            ::testing::Values(1, 2, 3)),
                         case_name);

/// The word embeddings are on the first stage and, as decoder, on the last, and the gradients of both are added between
/// them. The order differs from one device's, so they agree within rounding.
TEST(TextPipelines, GradientsAndLossAreThoseOfOneDevice) {
  const auto before = bert_strategy({.name = "single", .devices = 1}, 0.1f)->state_dict();
  const Trained one = trained({.name = "single", .devices = 1, .micro_batches = 4});
  for (const std::vector<std::string>& stages :
       std::vector<std::vector<std::string>>{{"2", "1"}, {"1", "1", "1"}, {}}) {
    StrategyOptions options{.name = "model_parallel", .devices = stages.empty() ? 2 : static_cast<int>(stages.size())};
    options.micro_batches = options.pipeline.micro_batches = 4;
    options.pipeline.cut.entries = stages;
    options.pipeline.schedule = PipelineSchedule::gpipe;
    SCOPED_TRACE(options.devices);
    const Trained cut = trained(options);
    EXPECT_EQ(cut.losses, one.losses) << "of the first step";
    EXPECT_LE(relative_difference(before, cut, one), kOtherOrder);
    for (const auto schedule : {PipelineSchedule::one_forward_one_back, PipelineSchedule::zero_bubble}) {
      options.pipeline.schedule = schedule;
      expect_same_bits(trained(options).state, cut.state);
    }
  }
}

TEST(TextPipelines, ReplicasLearnWhatDdpDoes) {
  StrategyOptions ddp{.name = "ddp", .devices = 2, .micro_batches = 4};
  StrategyOptions hybrid{.name = "hybrid", .devices = 4, .micro_batches = 4};
  ddp.adam = hybrid.adam = optim::AdamSettings{};
  ddp.clip_norm = hybrid.clip_norm = 0.5;
  hybrid.pipeline = {
      .cut = {.entries = {"bert.embeddings", "bert.encoder.layer.1"}}, .micro_batches = 4, .replicas = 2};
  const Trained expected = trained(ddp, 6, 0.01), got = trained(hybrid, 6, 0.01);
  for (size_t step = 0; step < expected.losses.size(); ++step)
    EXPECT_NEAR(got.losses[step], expected.losses[step], kOtherOrderAfterSteps * expected.losses[step])
        << "step " << step + 1;
}

TEST(TextPipelines, TiedWeightsStayAlikeAndAreSavedAsOnOneDevice) {
  StrategyOptions options{.name = "model_parallel", .devices = 2, .micro_batches = 4};
  options.adam = optim::AdamSettings{};
  options.pipeline = {.cut = {.entries = {"1", "2"}}, .micro_batches = 4};
  const auto cut = bert_strategy(options, 0.1f), single = bert_strategy({.name = "single", .devices = 1}, 0.1f);
  train(*cut, sentences(39), 3, 13, 0.01, 4);
  const auto tensors = cut->state_dict(), expected = single->state_dict();
  ASSERT_EQ(tensors.size(), expected.size());
  std::map<std::string, const nn::NamedValues*> by_name;
  for (size_t t = 0; t < tensors.size(); ++t) {
    EXPECT_EQ(tensors[t].name, expected[t].name) << "in the model's order";
    EXPECT_EQ(tensors[t].tied_to, expected[t].tied_to);
    by_name[tensors[t].name] = &tensors[t];
  }
  auto left = by_name;
  std::string last;
  cut->for_each_state([&](const nn::NamedValues& tensor) {
    EXPECT_LT(last, tensor.name);
    last = tensor.name;
    EXPECT_TRUE(tensor.values == left.at(tensor.name)->values) << tensor.name;
    left.erase(tensor.name);
  });
  EXPECT_TRUE(left.empty());
  // The decoder's weight is the last stage's own copy.
  EXPECT_TRUE(by_name["bert.embeddings.word_embeddings.weight"]->values ==
              by_name["cls.predictions.decoder.weight"]->values);
}

TEST(TextPipelines, EvaluateBothLossesAsOneDeviceDoes) {
  StrategyOptions options{.name = "model_parallel", .devices = 3};
  options.pipeline = {.cut = {.entries = {"1", "1", "1"}}, .micro_batches = 4};
  const Datasets data = sentences(60);
  const auto cut = *bert_strategy(options, 0.1f)->evaluate(*data.test, {.stopped = [] { return false; }});
  const auto one =
      *bert_strategy({.name = "single", .devices = 1}, 0.1f)->evaluate(*data.test, {.stopped = [] { return false; }});
  ASSERT_EQ(cut.outputs.size(), 2u);
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(cut.outputs[k].loss_sum, one.outputs[k].loss_sum);
    EXPECT_EQ(cut.outputs[k].counted, one.outputs[k].counted);
  }
}

/// Under a memory limit only the logits of masked rows are computed.
TEST(TextStrategies, UnderAMemoryLimitTheScoreIsThatOfEveryRow) {
  const Datasets data = sentences(60);
  const auto every =
      *bert_strategy({.name = "single", .devices = 1}, 0.1f)->evaluate(*data.test, {.stopped = [] { return false; }});
  for (const char* name : {"single", "ddp", "data_parallel", "kvstore", "model_parallel"})
    for (const int64_t micro_batch : {1, 3, 8}) {
      SCOPED_TRACE(::testing::Message() << name << ", " << micro_batch << " samples at once");
      StrategyOptions options{.name = name, .devices = name == std::string("single") ? 1 : 3};
      options.memory_limit_bytes = 64 << 20;
      if (is_pipeline(options)) options.pipeline = {.cut = {.entries = {"1", "1", "1"}}, .micro_batches = 4};
      const auto masked =
          *bert_strategy(options, 0.1f, micro_batch)->evaluate(*data.test, {.stopped = [] { return false; }});
      ASSERT_EQ(masked.outputs.size(), 2u);
      for (size_t k = 0; k < 2; ++k) {
        EXPECT_EQ(masked.outputs[k].loss_sum, every.outputs[k].loss_sum);
        EXPECT_EQ(masked.outputs[k].correct, every.outputs[k].correct);
        EXPECT_EQ(masked.outputs[k].counted, every.outputs[k].counted);
      }
    }
}

TEST(TextStrategies, AnotherOutputDeviceOfDataParallelComputesTheSameLoss) {
  for (const int devices : {2, 3})
    for (int output = 1; output < devices; ++output) {
      SCOPED_TRACE(::testing::Message() << "device " << output << " of " << devices);
      const StrategyOptions first{.name = "data_parallel", .devices = devices};
      StrategyOptions other = first;
      other.output_rank = output;
      EXPECT_EQ(trained(first).losses, trained(other).losses);
    }
}

TEST(TextStrategies, TheLossOfMaskedTokensAloneIsThatOfAllPositions) {
  const auto strategy = bert_strategy({.name = "single", .devices = 1}, 0.0f);
  // The first step's loss is computed before anything is learned, from masked rows alone; an evaluation computes every
  // row.
  Datasets data = sentences(40);
  const auto untrained = strategy->evaluate(*data.test, {.stopped = [] { return false; }});
  data.train = data.test;
  EXPECT_NEAR(train(*strategy, data, 1, 40, 0.01)[0], untrained->mean_loss(), kOtherOrder * untrained->mean_loss());
}

TEST(TextStrategies, LabelSmoothingIsOfTheTrainedLossAlone) {
  StrategyOptions smoothed{.name = "single", .devices = 1};
  smoothed.label_smoothing = 0.5;
  const auto plain = bert_strategy({.name = "single", .devices = 1}, 0.0f), soft = bert_strategy(smoothed, 0.0f);
  const Datasets data = sentences(40);
  EXPECT_EQ(plain->evaluate(*data.test, {.stopped = [] { return false; }})->mean_loss(),
            soft->evaluate(*data.test, {.stopped = [] { return false; }})->mean_loss());
  const auto of_plain = train(*plain, data, 1, 40, 65536), of_soft = train(*soft, data, 1, 40, 65536);
  EXPECT_NE(of_plain[0], of_soft[0]) << "what is minimized is reported";
  const auto a = plain->state_dict(), b = soft->state_dict();
  EXPECT_FALSE(a[0].values == b[0].values);
}

/// Runs on GPUs with recorded steps: the numbers of masked tokens change with each step, and are read on the device.
class CudaTextStrategies : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  void SetUp() override {
    if (cuda_devices().empty()) GTEST_SKIP() << "no GPU: " << cuda_absence();
  }
};

TEST_P(CudaTextStrategies, LossesAreThoseOfACpuWorker) {
  StrategyOptions on_gpus{.name = std::get<0>(GetParam()), .sgd = {}};
  on_gpus.list.assign(static_cast<size_t>(std::get<1>(GetParam())), {DeviceKind::cuda, 0});
  StrategyOptions on_cpu = {.name = "single", .devices = 1};
  on_gpus.adam = on_cpu.adam = optim::AdamSettings{};
  const Trained gpu = trained(on_gpus, 12, 0.003), cpu = trained(on_cpu, 12, 0.003);
  ASSERT_EQ(gpu.losses.size(), cpu.losses.size());
  for (size_t step = 0; step < cpu.losses.size(); ++step)
    EXPECT_NEAR(gpu.losses[step], cpu.losses[step], kOtherOrderAfterSteps * cpu.losses[step]) << "step " << step + 1;
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudaTextStrategies,
                         ::testing::Values(std::tuple{"single", 1}, std::tuple{"ddp", 2}, std::tuple{"ddp_sharded", 2},
                                           std::tuple{"fsdp", 2}, std::tuple{"kvstore", 2},
                                           std::tuple{"kvstore_local", 2}, std::tuple{"data_parallel", 2}),
                         case_name);

}  // namespace text_strategies_test
}  // namespace dptrain::parallel
