// Choices that strategies make by measuring follow the measured times. Layers sleep, so that the machine's speed
// doesn't matter.
#include <gtest/gtest.h>

#include "parallel/sleeping_net.h"

namespace dptrain::parallel {
namespace measured_times_test {

constexpr Sleeps kShort = {.forward_s = 0.01, .backward_s = 0.02};
constexpr Sleeps kLong = {.forward_s = 0.06, .backward_s = 0.12};

/// The layers of both stages of a pipeline that is cut by measured times.
std::vector<std::vector<std::string>> stages_of(const std::vector<Sleeps>& sleeps) {
  std::vector<SleepingLayer> layers;
  for (const Sleeps& of_layer : sleeps) layers.push_back({.outputs = 10, .sleeps = of_layer});
  const StrategyOptions options{
      .name = "model_parallel", .net = sleeping_net(layers), .pipeline = {.cut = {}, .micro_batches = 2}};
  return make_strategy(options)->take_pipeline_figures().value().stages;
}

TEST(MeasuredTimes, StagesAreCutWhereBothTakeAsLong) {
  using Stages = std::vector<std::vector<std::string>>;
  EXPECT_EQ(stages_of({kShort, kShort, kShort, kLong}),
            (Stages{{"images", "sleeping0", "sleeping1", "sleeping2"}, {"sleeping3"}}));
  EXPECT_EQ(stages_of({kLong, kShort, kShort, kShort}),
            (Stages{{"images", "sleeping0"}, {"sleeping1", "sleeping2", "sleeping3"}}));
}

TEST(MeasuredTimes, ADevicesSpeedIsThatOfItsLayers) {
  constexpr double kSlower = 3;
  models::ModelSpec net = sleeping_net({});
  net.build = [](const nn::LayerOptions& options, const models::ModelInput& input) {
    const double times = options.device.id().index == 1 ? kSlower : 1;
    return sleeping_net({{.outputs = 10, .sleeps = {.forward_s = 0.03 * times, .backward_s = 0.03 * times}}})
        .build(options, input);
  };
  const Datasets data = digits(8, 1);
  const std::vector<double> speeds = make_strategy({.net = net})->measure_speeds(*data.train, 4);
  ASSERT_EQ(speeds.size(), 2u);
  EXPECT_NEAR(speeds[0] / speeds[1], kSlower, 0.15 * kSlower);
}

}  // namespace measured_times_test
}  // namespace dptrain::parallel
