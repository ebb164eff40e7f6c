// A GPU and a CPU worker train together, and learn what a GPU learns alone.

#include <gtest/gtest.h>

#include "parallel/comm_speed.h"
#include "parallel/gpu_strategies.h"
#include "parallel/pipelines.h"

namespace dptrain::parallel {
namespace gpu_beside_cpu_test {

class CudaBesideCpu : public CudaStrategies {};

TEST_F(CudaBesideCpu, AreStagesOfAPipeline) {
  const auto single = trained({.name = "single", .micro_batches = 4, .list = {kGpu}}, 4, 16, 56);
  for (const std::vector<DeviceId>& list :
       std::vector<std::vector<DeviceId>>{{kGpu, {DeviceKind::cpu, 0}}, {{DeviceKind::cpu, 0}, kGpu}}) {
    StrategyOptions cut{.name = "model_parallel", .micro_batches = 4, .list = list};
    cut.pipeline = {.cut = {.entries = {"1", "2"}}, .micro_batches = 4};
    const auto several = trained(cut, 4, 16, 56);
    for (size_t step = 0; step < 4; ++step)
      EXPECT_NEAR(several.losses[step], single.losses[step], 1e-4 * single.losses[step]) << "step " << step + 1;
  }
}

/// The GPU and the CPU worker have two stages each, so that boundaries in both directions are between unlike devices.
TEST_F(CudaBesideCpu, HaveSeveralStagesOfAPipeline) {
  const auto net = [](StrategyOptions options) {
    options.net = net_of_layers("[conv: {channels: 8, kernel: 3}, relu, flatten, linear: 32, relu, linear: classes]");
    return options;
  };
  const auto single = trained(net({.name = "single", .micro_batches = 4, .list = {kGpu}}), 4, 16, 56);
  StrategyOptions cut = net({.name = "model_parallel", .micro_batches = 4, .list = {kGpu, {DeviceKind::cpu, 0}}});
  cut.pipeline = {.schedule = PipelineSchedule::interleaved, .stages_per_device = 2, .micro_batches = 4};
  cut.pipeline.cut.entries = {"conv1", "flatten1", "fc1", "fc2"};
  const auto several = trained(cut, 4, 16, 56);
  for (size_t step = 0; step < 4; ++step)
    EXPECT_NEAR(several.losses[step], single.losses[step], 1e-4 * single.losses[step]) << "step " << step + 1;
}

TEST_F(CudaBesideCpu, ShareAStep) {
  const std::vector<DeviceId> both = {kGpu, {DeviceKind::cpu, 0}};
  const auto alone = trained({.name = "single", .sgd = {.momentum = 0.9}, .list = {kGpu}}, 4, 16, 56);
  const auto ddp = trained({.name = "ddp", .sgd = {.momentum = 0.9}, .list = both}, 4, 16, 56);
  for (size_t step = 0; step < 4; ++step)
    EXPECT_NEAR(ddp.losses[step], alone.losses[step], 1e-4 * alone.losses[step]) << "step " << step + 1;
  // A GPU and a CPU worker round a gradient's exponentials differently. In ddp both compute losses, in data_parallel
  // one device does.
  for (const int output_rank : {0, 1}) {
    const auto gathered = trained(
        {.name = "data_parallel", .output_rank = output_rank, .sgd = {.momentum = 0.9}, .list = both}, 4, 16, 56);
    for (size_t t = 0; t < ddp.state.size(); ++t)
      for (size_t i = 0; i < ddp.state[t].values.size(); ++i)
        ASSERT_NEAR(gathered.state[t].values[i], ddp.state[t].values[i], 1e-5) << ddp.state[t].name;
  }
}

TEST_F(CudaBesideCpu, ShareAStepByTheirSpeeds) {
  const StrategyOptions options{.name = "ddp", .sgd = {.momentum = 0.9}, .list = {kGpu, {DeviceKind::cpu, 0}}};
  const Datasets data = digits(56, 10);
  const std::vector<double> speeds = make_strategy(options)->measure_speeds(*data.train, 8);
  ASSERT_EQ(speeds.size(), 2u);
  for (const double speed : speeds) EXPECT_GT(speed, 0);
  // A split that `split: auto` may choose by these speeds.
  StrategyContext context = context_of(options);
  context.split = BatchSplit::weighted({3, 1});
  const auto losses = train(*make_strategy(options, context), data, 4, 16, 0.05);
  const auto alone = trained({.name = "single", .sgd = {.momentum = 0.9}, .list = {kGpu}}, 4, 16, 56);
  for (size_t step = 0; step < 4; ++step)
    EXPECT_NEAR(losses[step], alone.losses[step], 1e-4 * alone.losses[step]) << "step " << step + 1;
}

TEST_F(CudaBesideCpu, AreMeasuredTogether) {
  RankTeam::Options options{.devices = {kGpu, {DeviceKind::cpu, 0}}, .threads = {1, 1}, .timeout_s = 60};
  RankTeam team(options);
  const auto speeds = measure_comm(team, {.bytes = {4096}, .repeats = 3});
  EXPECT_EQ(speeds.size(), 5u) << "all collectives";
  for (const CommSpeed& speed : speeds) {
    EXPECT_GT(speed.seconds, 0);
    EXPECT_EQ(speed.copy_s, 0) << "memcpy is no measure of a GPU";
  }
}

TEST_F(CudaBesideCpu, ShareAStepInBf16) {
  const std::vector<DeviceId> both = {kGpu, {DeviceKind::cpu, 0}};
  const auto full = trained({.name = "single", .list = {kGpu}}, 6, 16, 96);
  for (const char* name : {"ddp", "data_parallel"})
    for (const int output_rank : {0, 1}) {
      const auto half =
          trained({.name = name, .output_rank = output_rank, .list = both, .precision = Precision::bf16}, 6, 16, 96);
      for (size_t step = 0; step < full.losses.size(); ++step)
        EXPECT_NEAR(half.losses[step], full.losses[step], 0.02 * full.losses[step]) << name << ", step " << step + 1;
    }
}

}  // namespace gpu_beside_cpu_test
}  // namespace dptrain::parallel
