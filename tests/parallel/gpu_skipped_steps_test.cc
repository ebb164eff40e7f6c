// In fp16 every strategy skips a step whose gradients overflow, on all of its GPUs.

#include <gtest/gtest.h>

#include <string>

#include "parallel/gpu_strategies.h"

namespace dptrain::parallel {
namespace gpu_skipped_steps_test {

struct SkippedCase {
  const char* strategy;
  int gpus;
  int shards = 0;        ///< 0: off
  bool by_lamb = false;  ///< used instead of SGD
};

/// The name of a test.
std::string name_of(const ::testing::TestParamInfo<SkippedCase>& of) {
  const std::string shards = of.param.shards > 0 ? "_in_shards" : "";
  return of.param.strategy + shards + (of.param.by_lamb ? "_by_lamb" : "");
}

class CudaSkippedSteps : public CudaStrategies, public ::testing::WithParamInterface<SkippedCase> {};

TEST_P(CudaSkippedSteps, LeaveTheWeightsAsTheyWere) {
  StrategyOptions options{.name = GetParam().strategy,
                          .list = std::vector<DeviceId>(static_cast<size_t>(GetParam().gpus), kGpu),
                          .precision = Precision::fp16};
  if (GetParam().by_lamb) options.lamb.emplace();
  StrategyContext context = context_of(options);
  // The samples decide which shard overflows; all shards must skip the step.
  context.shards = GetParam().shards;
  // Large weights drive gradients past f16's range at the first scale, 2^16.
  context.replica.initialization.weights = nn::Initializer::normal(3.0);
  const auto strategy = make_strategy(options, context);
  const TrainingState before = strategy->training_state();
  train(*strategy, digits(16, 10), 1, 16, 0.05);
  EXPECT_EQ(strategy->take_costs(0).skipped_steps, 1);
  const TrainingState after = strategy->training_state();
  expect_same_bits(after.model, before.model);
  expect_same_bits(after.optimizer, before.optimizer);
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, CudaSkippedSteps,
    ::testing::Values(SkippedCase{"single", 1}, SkippedCase{"ddp", 2}, SkippedCase{"data_parallel", 2},
                      SkippedCase{"ddp_sharded", 2}, SkippedCase{"fsdp", 2}, SkippedCase{"kvstore", 2},
                      SkippedCase{"kvstore_local", 2}, SkippedCase{"ddp_bf16", 2}, SkippedCase{"ddp_fp16", 2},
                      SkippedCase{"ddp_powersgd", 2}, SkippedCase{"ddp_two_bit", 2}, SkippedCase{"single", 1, 4},
                      SkippedCase{"ddp", 2, 4}, SkippedCase{"data_parallel", 2, 4}, SkippedCase{"ddp_sharded", 2, 4},
                      SkippedCase{"kvstore", 2, 4}, SkippedCase{"single", 1, 0, true}, SkippedCase{"ddp", 2, 0, true},
                      SkippedCase{"ddp_sharded", 2, 0, true}, SkippedCase{"fsdp", 2, 0, true},
                      SkippedCase{"kvstore", 2, 0, true}, SkippedCase{"kvstore_local", 2, 0, true}),
    name_of);

}  // namespace gpu_skipped_steps_test
}  // namespace dptrain::parallel
