// Under data_parallel GPUs record what they do between two exchanges. Replayed steps give bit-identical weights to
// steps that run operator by operator.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "parallel/gpu_strategies.h"
#include "parallel/many_digits.h"
#include "parallel/pipelines.h"
#include "parallel/residual_net.h"
#include "parallel/small_bert.h"

namespace dptrain::parallel {
namespace gpu_data_parallel_test {

class CudaDataParallel : public CudaStrategies {
 protected:
  /// On three devices, micro-batches of 2 samples and of 1 leave some without.
  static StrategyOptions options(const char* name, int output_rank = 0) {
    return {.name = name, .output_rank = output_rank, .sgd = {.momentum = 0.9}, .list = {kGpu, kGpu, kGpu}};
  }
};

TEST_F(CudaDataParallel, ReplaysItsPassesToTheSameBits) {
  for (StrategyOptions of_case : {options("data_parallel"), options("parallel_criterion")}) {
    SCOPED_TRACE(of_case.name);
    of_case.list = two_gpus();
    expect_graphs_alike(of_case);
    of_case.list = {kGpu, kGpu, kGpu};
    if (of_case.name == "data_parallel") of_case.output_rank = 2;
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      SCOPED_TRACE(static_cast<int>(precision));
      of_case.precision = precision;
      expect_graphs_alike(of_case);
    }
  }
}

/// The moving average, clipping, and dropout, whose draws follow from the samples' numbers.
TEST_F(CudaDataParallel, ReplaysWhatChangesByStep) {
  StrategyOptions changing = options("data_parallel");
  changing.net =
      net_of_layers("[conv: {channels: 8, kernel: 3}, relu, dropout: 0.3, max_pool: 2, flatten, linear: classes]");
  changing.adam = optim::AdamSettings{};
  changing.clip_norm = 0.5;
  changing.average_decay = 0.5;
  expect_graphs_alike(changing);
}

TEST_F(CudaDataParallel, ReplaysBesideSharedBatchStatistics) {
  for (const BatchNormMode mode : {BatchNormMode::local, BatchNormMode::average, BatchNormMode::first}) {
    SCOPED_TRACE(batch_norm_mode_name(mode));
    StrategyOptions normed = options("data_parallel");
    normed.net = residual_net();
    normed.batch_norm = mode;
    expect_graphs_alike(normed);
  }
}

/// Devices sum batch statistics during their passes, so nothing is recorded.
TEST_F(CudaDataParallel, RecordsNothingThatSumsBatchStatistics) {
  StrategyOptions normed = options("data_parallel");
  normed.net = residual_net();
  normed.batch_norm = BatchNormMode::sync;
  normed.micro_batches = 4;
  EXPECT_EQ(outcome(normed).graph_steps, std::vector<int64_t>(3, 0));
}

/// A GPU replays while a CPU worker computes, whichever of them has the weights and the losses.
TEST_F(CudaDataParallel, ReplaysBesideACpuWorker) {
  for (const char* name : {"data_parallel", "parallel_criterion"})
    for (const std::vector<DeviceId>& list :
         {std::vector<DeviceId>{kGpu, {DeviceKind::cpu, 0}}, {{DeviceKind::cpu, 0}, kGpu}}) {
      SCOPED_TRACE(::testing::Message() << name << ", first " << list[0].name());
      StrategyOptions beside = options(name);
      beside.list = list;
      expect_graphs_alike(beside);
    }
}

/// The first GPU is sent the images with each step, and scatters them.
TEST_F(CudaDataParallel, ReplaysStepsThatBringTheirImages) {
  for (const char* name : {"data_parallel", "parallel_criterion"}) {
    SCOPED_TRACE(name);
    StrategyOptions limited = options(name, name == std::string("data_parallel") ? 1 : 0);
    limited.micro_batches = 2;
    const auto losses = [&] {
      const auto strategy = make_strategy(limited);
      return train(*strategy, many_digits(), 5, 16, 0.05, 2);
    };
    const auto of_kept_data = losses();
    limited.memory_limit_bytes = 300'000'000;  // half of it is less than the data set
    EXPECT_EQ(losses(), of_kept_data);
    limited.records = false;
    EXPECT_EQ(losses(), of_kept_data);
  }
}

/// Texts have sizes of their own on each device, which aren't known to the others.
TEST_F(CudaDataParallel, ReplaysStepsOfText) {
  for (const char* name : {"data_parallel", "parallel_criterion"})
    for (const int output_rank : {0, 1}) {
      if (output_rank > 0 && name != std::string("data_parallel")) continue;
      SCOPED_TRACE(::testing::Message() << name << " to " << output_rank);
      StrategyOptions texts = options(name, output_rank);
      const auto outcome_of_text = [&] {
        StrategyContext context = context_of(texts);
        context.replica.model = small_bert(2, 0.1f);
        context.replica.input = {.text = kText};
        const auto strategy = make_strategy(texts, context);
        auto losses = train(*strategy, sentences(6 * 13), 6, 13, 0.05);
        return std::pair(Trained{strategy->state_dict(), std::move(losses)}, strategy->take_costs(0).graph_steps);
      };
      const auto [recorded, graph_steps] = outcome_of_text();
      EXPECT_GT(graph_steps, 0);
      texts.records = false;
      const auto [done, no_graph_steps] = outcome_of_text();
      EXPECT_EQ(no_graph_steps, 0);
      expect_same_bits(recorded, done);
    }
}

TEST_F(CudaDataParallel, TakesNoMoreMemoryForGraphs) {
  for (const char* name : {"data_parallel", "parallel_criterion"})
    EXPECT_EQ(peaks(options(name), true), peaks(options(name), false)) << name;
}

}  // namespace gpu_data_parallel_test
}  // namespace dptrain::parallel
