// Nets with batch norms under every strategy and number of devices: with batch statistics over all devices they learn
// what one device learns, pipelines and replicas of them bit for bit. LeNet, BERT and a net with a half-used branch
// stand in strategies_test.cc, text_strategies_test.cc and unused_parameters_test.cc.
#include <gtest/gtest.h>

#include <cmath>

#include "data/synthetic.h"
#include "models/pyramidnet.h"
#include "parallel/digits.h"
#include "parallel/residual_net.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace {

constexpr int64_t kSteps = 2, kBatch = 18, kMicroBatches = 4;

struct Net {
  const char* name;
  models::ModelSpec model;
  models::ModelInput input;
  Datasets data;
};

Datasets color_images() {
  Datasets data;
  data.train =
      std::make_shared<ByteImages>(make_synthetic({.samples = 64, .image_shape = {3, 32, 32}}), Normalization{});
  return data;
}

Net net_named(const std::string& name) {
  if (name == "resnet")
    return {.name = "resnet", .model = residual_net(), .input = {.image = {1, 28, 28}}, .data = digits(64, 10)};
  const models::PyramidNetOptions sizes{.alpha = 12, .depth = 2, .blocks = 1};
  return {
      .name = "pyramidnet",
      .model = {.name = "pyramidnet",
                .build = [sizes](const nn::LayerOptions& layers,
                                 const models::ModelInput& input) { return build_pyramidnet(sizes, layers, input); }},
      .input = {.image = {3, 32, 32}},
      .data = color_images()};
}

Trained trained(const Net& net, const StrategyOptions& options) {
  StrategyContext context = context_of(options);
  context.replica.model = net.model;
  context.replica.input = net.input;
  const auto strategy = make_strategy(options, context);
  auto losses = train(*strategy, net.data, kSteps, kBatch, 0.02, options.micro_batches);
  return {.state = strategy->state_dict(), .losses = std::move(losses)};
}

/// The largest difference of a tensor's values over its largest value.
double difference(const nn::NamedValues& a, const nn::NamedValues& b) {
  double apart = 0, largest = 1e-3;
  for (size_t i = 0; i < a.values.size(); ++i) {
    apart = std::max(apart, std::abs(double{a.values[i]} - b.values[i]));
    largest = std::max(largest, std::abs(double{b.values[i]}));
  }
  return apart / largest;
}

/// Parameters: net, strategy, devices. 18 samples are uneven on 4.
class ParityMatrix : public ::testing::TestWithParam<std::tuple<const char*, const char*, int>> {};

TEST_P(ParityMatrix, SharedStatisticsLearnWhatOneDeviceLearns) {
  const auto [name, strategy, devices] = GetParam();
  const Net net = net_named(name);
  const Trained one = trained(net, {.name = "single", .devices = 1, .sgd = {.momentum = 0.9}});
  const Trained several =
      trained(net, {.name = strategy, .devices = devices, .sgd = {.momentum = 0.9}, .batch_norm = BatchNormMode::sync});
  for (size_t step = 0; step < one.losses.size(); ++step)
    EXPECT_NEAR(several.losses[step], one.losses[step], 1e-4 * one.losses[step]) << "step " << step + 1;
  ASSERT_EQ(several.state.size(), one.state.size());
  // Two steps at a small rate: what rounding and a ReLU that it decides otherwise may change.
  for (size_t t = 0; t < one.state.size(); ++t)
    EXPECT_LE(difference(several.state[t], one.state[t]), 2e-3) << one.state[t].name;
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<const char*, const char*, int>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param) + "_" +
         std::to_string(std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Replicas, ParityMatrix,
                         ::testing::Combine(::testing::Values("resnet", "pyramidnet"),
                                            ::testing::Values("data_parallel", "parallel_criterion", "ddp",
                                                              "ddp_sharded", "kvstore", "kvstore_local",
                                                              "kvstore_round_robin"),
                                            ::testing::Values(1, 2, 3, 4)),
                         case_name);

/// Parameters: net, schedule, devices.
using PipelineCase = std::tuple<const char*, PipelineSchedule, int>;
class PipelineMatrix : public ::testing::TestWithParam<PipelineCase> {};

TEST_P(PipelineMatrix, StagesEndInTheBitsOfOneDevice) {
  const auto [name, schedule, devices] = GetParam();
  const Net net = net_named(name);
  const Trained one =
      trained(net, {.name = "single", .devices = 1, .sgd = {.momentum = 0.9}, .micro_batches = kMicroBatches});
  StrategyOptions cut{
      .name = "model_parallel", .devices = devices, .sgd = {.momentum = 0.9}, .micro_batches = kMicroBatches};
  cut.pipeline = {.schedule = schedule, .micro_batches = kMicroBatches};
  expect_same_bits(trained(net, cut), one);
}

TEST_P(PipelineMatrix, ReplicasOfThemEndInTheBitsOfDdp) {
  const auto [name, schedule, devices] = GetParam();
  if (devices % 2 != 0) return;  // two replicas of as many stages
  const Net net = net_named(name);
  const Trained ddp =
      trained(net, {.name = "ddp", .devices = 2, .sgd = {.momentum = 0.9}, .micro_batches = kMicroBatches});
  StrategyOptions hybrid{
      .name = "hybrid", .devices = 2 * devices, .sgd = {.momentum = 0.9}, .micro_batches = kMicroBatches};
  hybrid.pipeline = {.schedule = schedule, .micro_batches = kMicroBatches, .replicas = 2};
  expect_same_bits(trained(net, hybrid), ddp);
}

std::string pipeline_name(const ::testing::TestParamInfo<PipelineCase>& info) {
  const bool gpipe = std::get<1>(info.param) == PipelineSchedule::gpipe;
  return std::string(std::get<0>(info.param)) + (gpipe ? "_gpipe_" : "_1f1b_") +
         std::to_string(std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Stages, PipelineMatrix,
                         ::testing::Combine(::testing::Values("resnet", "pyramidnet"),
                                            ::testing::Values(PipelineSchedule::gpipe,
                                                              PipelineSchedule::one_forward_one_back),
                                            ::testing::Values(2, 3, 4)),
                         pipeline_name);

}  // namespace
}  // namespace dptrain::parallel
