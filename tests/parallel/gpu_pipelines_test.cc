// GPUs record the passes of their stages. Replayed passes give bit-identical weights to steps that run operator by
// operator.

#include <gtest/gtest.h>

#include "parallel/gpu_strategies.h"
#include "parallel/pipelines.h"
#include "parallel/residual_net.h"

namespace dptrain::parallel {
namespace gpu_pipelines_test {

class CudaPipelines : public CudaStrategies {
 protected:
  /// LeNet in two stages.
  static StrategyOptions two_stages(std::vector<DeviceId> list) {
    StrategyOptions options{.name = "model_parallel", .sgd = {.momentum = 0.9}, .list = std::move(list)};
    options.pipeline.cut.entries = {"1", "2"};
    return options;
  }
};

TEST_F(CudaPipelines, ReplayTheirPassesToTheSameBits) {
  StrategyOptions options = two_stages(two_gpus());
  options.average_decay = 0.5;
  for (const auto schedule : kSchedulesOfOneStage)
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      SCOPED_TRACE(::testing::Message() << schedule_name(schedule) << ", precision " << static_cast<int>(precision));
      options.pipeline.schedule = schedule;
      options.precision = precision;
      expect_graphs_alike(options);
    }
}

TEST_F(CudaPipelines, ReplayThoseOfSeveralStages) {
  StrategyOptions options = two_stages(two_gpus());
  options.net = net_of_layers(
      "[conv: {channels: 8, kernel: 3}, relu, dropout: 0.3, max_pool: 2, flatten, linear: 32, relu, linear: classes]");
  options.pipeline.cut.entries = {"conv1", "flatten1", "fc1", "fc2"};
  options.pipeline.schedule = PipelineSchedule::interleaved;
  options.pipeline.stages_per_device = 2;
  expect_graphs_alike(options);
}

/// Between recorded sections devices communicate: to add up gradients, and for a norm of all gradients or a loss scale.
TEST_F(CudaPipelines, ReplayBesideWhatAllOfThemDoTogether) {
  StrategyOptions options = two_stages({kGpu, kGpu, kGpu, kGpu});
  options.name = "hybrid";
  options.pipeline.replicas = 2;
  expect_graphs_alike(options);
  options.clip_norm = 0.5;
  expect_graphs_alike(options);
  options.precision = Precision::fp16;
  expect_graphs_alike(options);
  SCOPED_TRACE("batch norms");
  options = {.name = "hybrid", .net = residual_net(), .list = options.list, .batch_norm = BatchNormMode::average};
  options.pipeline = {.cut = {.entries = {"conv1", "residual2"}}, .replicas = 2};
  expect_graphs_alike(options);
}

/// A stage that takes batch statistics over all replicas communicates during its passes, which therefore aren't
/// recorded. The passes of stages without batch norms are recorded.
TEST_F(CudaPipelines, ReplayBesideStagesThatShareBatchStatistics) {
  StrategyOptions options{
      .name = "hybrid", .net = residual_net(), .list = {kGpu, kGpu, kGpu, kGpu}, .batch_norm = BatchNormMode::sync};
  options.pipeline = {.cut = {.entries = {"conv1", "fc1"}}, .micro_batches = 4, .replicas = 2};
  options.micro_batches = 4;
  const Outcome recorded = outcome(options);
  EXPECT_EQ(recorded.graph_steps, (std::vector<int64_t>{0, 7, 0, 7}));
  options.records = false;
  expect_same_bits(recorded.trained, outcome(options).trained);
}

/// Tensors between a GPU and a CPU worker are reordered, and go through host memory.
TEST_F(CudaPipelines, ReplayBesideACpuWorker) {
  for (const std::vector<DeviceId>& list :
       {std::vector<DeviceId>{kGpu, {DeviceKind::cpu, 0}}, {{DeviceKind::cpu, 0}, kGpu}})
    for (const auto schedule : kSchedulesOfOneStage) {
      SCOPED_TRACE(schedule_name(schedule));
      StrategyOptions options = two_stages(list);
      options.pipeline.schedule = schedule;
      expect_graphs_alike(options);
    }
}

/// A stage without trained parameters receives no gradients, and computes nothing in the backward pass.
TEST_F(CudaPipelines, ReplayStagesThatNoGradientComesBackTo) {
  StrategyOptions options = two_stages(two_gpus());
  options.net = net_of_layers("[max_pool: 2, flatten, linear: 32, relu, linear: classes]");
  options.pipeline.cut.entries = {"max_pool1", "fc1"};
  for (const auto schedule : kSchedulesOfOneStage) {
    options.pipeline.schedule = schedule;
    expect_graphs_alike(options);
  }
}

/// The GPUs' clocks measure how long passes take and how long devices wait.
TEST_F(CudaPipelines, AreTimedByTheirOwnClocks) {
  StrategyOptions options = two_stages(two_gpus());
  options.micro_batches = options.pipeline.micro_batches = 4;
  for (const bool records : {true, false}) {
    SCOPED_TRACE(records ? "recorded" : "not recorded");
    options.records = records;
    const auto strategy = make_strategy(options);
    const auto figures_of_step = [&] {
      train(*strategy, digits(39, 10), 1, 16, 0.05, 4);
      strategy->take_scores(true);
      return strategy->take_pipeline_figures().value();
    };
    // A first step isn't a graph, and it chooses algorithms.
    EXPECT_EQ(figures_of_step().bubble.has_value(), !records);
    const PipelineFigures figures = figures_of_step();
    ASSERT_TRUE(figures.bubble.has_value());
    EXPECT_GT(*figures.bubble, 0);
    EXPECT_LT(*figures.bubble, 1);
    EXPECT_GT(figures.predicted_bubble, 0);
    EXPECT_NE(figures.predicted_bubble, 1.0 / 5) << "that of equal stages";
  }
}

TEST_F(CudaPipelines, TakeNoMoreMemoryForGraphs) {
  for (const auto schedule : kSchedulesOfOneStage) {
    SCOPED_TRACE(schedule_name(schedule));
    StrategyOptions options = two_stages({kGpu, kGpu});
    options.pipeline.schedule = schedule;
    options.micro_batches = options.pipeline.micro_batches = 4;
    EXPECT_EQ(peaks(options, true), peaks(options, false));
  }
}

}  // namespace gpu_pipelines_test
}  // namespace dptrain::parallel
