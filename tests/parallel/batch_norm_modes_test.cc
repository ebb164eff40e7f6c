// Modes of `batch_norm` in which each device keeps its own batch statistics: what devices share. In all modes:
// evaluating or saving at any time changes no bit of a training run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "parallel/digits.h"
#include "parallel/residual_net.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace batch_norm_modes_test {

StrategyOptions options_of(BatchNormMode mode, const char* name = "ddp", int devices = 3) {
  return {.name = name, .net = residual_net(), .devices = devices, .sgd = {.momentum = 0.9}, .batch_norm = mode};
}

const std::vector<float>& values_of(const State& state, const std::string& name) {
  return std::ranges::find(state, name, &nn::NamedValues::name)->values;
}

State trained(const StrategyOptions& options, int64_t steps, int64_t batch) {
  const auto strategy = make_strategy(options);
  train(*strategy, digits(steps * batch, 10), steps, batch, 0.05);
  return strategy->state_dict();
}

/// Trains step by step; `between` may read the strategy between two steps.
template <class Between>
State trained_with(Strategy& strategy, int64_t first, int64_t end, const Between& between) {
  const ImageDatasets data = digits(70, 10);
  BatchLoader loader(data.train, {.batch_size = 10, .seed = 5, .devices = strategy.batch_devices()});
  loader.start_epoch(1);
  for (int64_t step = 1; step < end; ++step) {
    const std::shared_ptr<const Batch> batch = loader.next();
    if (step < first) continue;
    strategy.train_step(batch, {.step = step, .epoch = 1, .learning_rate = 0.05});
    strategy.take_scores(true);
    between();
  }
  return strategy.state_dict();
}

class BatchNormModes : public ::testing::TestWithParam<std::tuple<BatchNormMode, const char*>> {
 protected:
  StrategyOptions options() const { return options_of(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

TEST_P(BatchNormModes, ReadingATrainingChangesNoBitOfIt) {
  const auto undisturbed = make_strategy(options()), read = make_strategy(options());
  const State expected = trained_with(*undisturbed, 1, 8, [] {});
  const ImageDatasets data = digits(10, 130);
  const State got = trained_with(*read, 1, 8, [&] {
    read->evaluate(*data.test, {.stopped = [] { return false; }});
    read->training_state();
    read->statistics_spread();
  });
  expect_same_bits(got, expected);
}

TEST_P(BatchNormModes, AResumedTrainingEndsInTheBitsOfOneThatWasNot) {
  const auto whole = make_strategy(options()), stopped = make_strategy(options()), resumed = make_strategy(options());
  const State expected = trained_with(*whole, 1, 8, [] {});
  trained_with(*stopped, 1, 4, [] {});
  resumed->restore(stopped->training_state());
  expect_same_bits(trained_with(*resumed, 4, 8, [] {}), expected);
}

TEST_P(BatchNormModes, AreTheSameOnOneDevice) {
  StrategyOptions options = options_of(BatchNormMode::local, "single", 1);
  const State local = trained(options, 3, 10);
  options.batch_norm = std::get<0>(GetParam());
  options.name = std::get<1>(GetParam());
  expect_same_bits(trained(options, 3, 10), local);
  EXPECT_EQ(make_strategy(options)->statistics_spread(), std::nullopt);
}

/// A batch norm of one-pixel maps: with one sample, it sees one number per channel.
models::ModelSpec one_pixel_net() {
  models::ModelSpec net;
  const ConfigSession session(
      parse_config("model: {layers: [conv: {channels: 8, kernel: 28}, batch_norm, relu, flatten, linear: classes]}\n",
                   "net.yaml"),
      [&](ConfigReader& reader) { net = models::read_model(reader); });
  return net;
}

TEST_P(BatchNormModes, ALastBatchOfOneSampleTrains) {
  const Datasets data = digits(9, 10);
  const auto after = [&](StrategyOptions options) {
    options.net = one_pixel_net();
    const auto strategy = make_strategy(options);
    for (const double loss : train(*strategy, data, 3, 4, 0.05)) EXPECT_TRUE(std::isfinite(loss));
    return strategy->state_dict();
  };
  const State single = after(options_of(BatchNormMode::local, "single", 1)), got = after(options());
  for (const nn::NamedValues& tensor : got)
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      ASSERT_TRUE(std::isfinite(tensor.values[i])) << tensor.name;
      if (std::get<0>(GetParam()) != BatchNormMode::sync) continue;
      ASSERT_NEAR(tensor.values[i], values_of(single, tensor.name)[i], 1e-4) << tensor.name;
    }
}

INSTANTIATE_TEST_SUITE_P(All, BatchNormModes,
                         ::testing::Combine(::testing::ValuesIn(kBatchNormModes),
                                            ::testing::Values("ddp", "data_parallel")),
                         [](const auto& test) {
                           return std::string(batch_norm_mode_name(std::get<0>(test.param))) + "_" +
                                  std::get<1>(test.param);
                         });

TEST(BatchNormAverage, IsWeightedBySamples) {
  // The first batch norm's input is the same on any devices, so the weighted means of 1, 2 and 2 samples give that of
  // all 5.
  const State single = trained(options_of(BatchNormMode::local, "single", 1), 1, 5);
  const auto& expected = values_of(single, "bn1.running_mean");
  for (const char* name : {"ddp", "data_parallel"}) {
    SCOPED_TRACE(name);
    const State average = trained(options_of(BatchNormMode::average, name), 1, 5);
    const State local = trained(options_of(BatchNormMode::local, name), 1, 5);
    const auto &got = values_of(average, "bn1.running_mean"), &own = values_of(local, "bn1.running_mean");
    double apart = 0;
    for (size_t c = 0; c < expected.size(); ++c) {
      EXPECT_NEAR(got[c], expected[c], 1e-6 * (1 + std::abs(expected[c])));
      apart = std::max(apart, std::abs(double{own[c]} - expected[c]));
    }
    EXPECT_GT(apart, 1e-4) << "one device alone has seen something else";
  }
}

TEST(BatchNormAverage, LeavesADeviceWithoutSamplesOut) {
  const State single = trained(options_of(BatchNormMode::local, "single", 1), 1, 1);
  const State average = trained(options_of(BatchNormMode::average), 1, 1);
  for (const nn::NamedValues& tensor : single) {
    if (tensor.name.find("running") == std::string::npos) continue;
    EXPECT_EQ(values_of(average, tensor.name), tensor.values) << tensor.name;
  }
}

TEST(BatchNormAverage, EndsInTheSameBitsUnderEveryStrategy) {
  expect_same_bits(trained(options_of(BatchNormMode::average), 4, 10),
                   trained(options_of(BatchNormMode::average, "data_parallel"), 4, 10));
}

TEST(BatchNormFirst, TrainsAndEvaluatesAsLocalDoes) {
  expect_same_bits(trained(options_of(BatchNormMode::first), 4, 10), trained(options_of(BatchNormMode::local), 4, 10));
}

TEST(BatchNormSpread, SaysHowFarTheDevicesAreApart) {
  const auto spread_after = [](BatchNormMode mode, int64_t steps) {
    const auto strategy = make_strategy(options_of(mode));
    train(*strategy, digits(steps * 10, 10), steps, 10, 0.05);
    return strategy->statistics_spread().value_or(-1);
  };
  EXPECT_EQ(spread_after(BatchNormMode::sync, 4), 0);
  EXPECT_EQ(spread_after(BatchNormMode::average, 4), 0);
  // `first` copies the statistics before every step, so they differ by no more than one step.
  const double first = spread_after(BatchNormMode::first, 8), local = spread_after(BatchNormMode::local, 8);
  EXPECT_GT(first, 0);
  EXPECT_GT(local, 1.2 * first);
  EXPECT_EQ(make_strategy({.devices = 2})->statistics_spread(), std::nullopt) << "LeNet has no batch norm";
}

TEST(BatchNormSpread, IsTheLargestOfAnyTensor) {
  // The first tensor's spread is 0.5 of 4, the second's 1 of 10.
  EXPECT_EQ(statistics_spread({{{1, -4}, {10, 3}}, {{1.5, -4}, {10, 4}}, {{1.25, -4}, {10, 3.5}}}), 0.125);
  EXPECT_EQ(statistics_spread({{{0, 0}}, {{0, 0}}}), 0.0);
  EXPECT_EQ(statistics_spread({{{1, 2}}}), std::nullopt);
  EXPECT_EQ(statistics_spread({{}, {}}), std::nullopt);
}

TEST(BatchNormCosts, OfRunningStatisticsAreOneCollectiveAStep) {
  constexpr int64_t kSteps = 3, kDevices = 3;
  const auto sent = [](BatchNormMode mode) {
    const auto strategy = make_strategy(options_of(mode));
    train(*strategy, digits(kSteps * 10, 10), kSteps, 10, 0.05);
    CommCounts counts;
    for (int rank = 0; rank < kDevices; ++rank) {
      const CommCounts own = strategy->take_costs(rank).communication;
      counts.bytes += own.bytes;
      counts.collectives = own.collectives;
    }
    return counts;
  };
  int64_t bytes = 0;  // mean and variance of each batch norm, padded to 16 floats
  for (const int64_t channels : kResidualNetChannels) bytes += 2 * 4 * ((channels + 15) / 16 * 16);
  const CommCounts local = sent(BatchNormMode::local), average = sent(BatchNormMode::average),
                   first = sent(BatchNormMode::first);
  EXPECT_EQ(average.bytes - local.bytes, kSteps * 2 * (kDevices - 1) * bytes);
  EXPECT_EQ(average.collectives - local.collectives, kSteps);
  EXPECT_EQ(first.bytes - local.bytes, kSteps * (kDevices - 1) * bytes);
  EXPECT_EQ(first.collectives - local.collectives, kSteps);
}

}  // namespace batch_norm_modes_test
}  // namespace dptrain::parallel
