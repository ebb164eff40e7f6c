// Logical shards of a batch on GPUs: any number of GPUs ends in the bits of one, and replayed steps end in the bits of
// steps that run operator by operator.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "parallel/gpu_strategies.h"
#include "parallel/residual_net.h"

namespace dptrain::parallel {
namespace gpu_shards_test {

class CudaShards : public CudaStrategies {
 protected:
  static std::unique_ptr<Strategy> sharded(StrategyOptions options, const char* name, int gpus, int shards = 4) {
    options.name = name;
    options.list.assign(static_cast<size_t>(gpus), kGpu);
    StrategyContext context = context_of(options);
    context.shards = shards;
    return make_strategy(options, context);
  }
};

TEST_F(CudaShards, EndInTheBitsOfOneGpu) {
  const auto outcome = [](const std::unique_ptr<Strategy>& strategy) {
    // Shards have 4 samples, in the last step 3 or 2.
    auto losses = train(*strategy, digits(26, 10), 2, 16, 0.05);
    return Trained{strategy->state_dict(), std::move(losses)};
  };
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    StrategyOptions options{.net = residual_net(), .sgd = {.momentum = 0.9}, .precision = precision};
    const Trained single = outcome(sharded(options, "single", 1));
    const Trained local = outcome(sharded(options, "kvstore_local", 1));
    // Four GPUs without shards compute the same parts with the same scale, and save the first GPU's running statistics.
    const Trained whole = outcome(sharded(options, "ddp", 4, 0));
    for (size_t t = 0; t < whole.state.size(); ++t)
      if (whole.state[t].name.find("running_") == std::string::npos) {
        EXPECT_TRUE(single.state[t].values == whole.state[t].values) << whole.state[t].name;
      }
    for (const int gpus : {1, 2, 4}) {
      SCOPED_TRACE(::testing::Message() << gpus << " GPUs, precision " << static_cast<int>(precision));
      for (const char* name : {"ddp", "ddp_sharded", "data_parallel", "kvstore"}) {
        SCOPED_TRACE(name);
        expect_same_bits(outcome(sharded(options, name, gpus)), single);
      }
      // In host memory a CPU worker makes the update, and it rounds differently.
      expect_same_bits(outcome(sharded(options, "kvstore_local", gpus)).state, local.state);
    }
  }
}

/// Shards of 17 samples on two GPUs have 4, 4 | 4, 5, those of 16 have 4, 4 | 4, 4. The first GPU's work differs all
/// the same: the running statistics of its shards have other weights.
TEST_F(CudaShards, AreWeighedByTheSamplesOfAllGpus) {
  StrategyOptions options{.net = residual_net()};
  const auto state_after = [&](const char* name, int gpus) {
    const auto strategy = sharded(options, name, gpus);
    for (int epoch = 0; epoch < 3; ++epoch)
      for (const int64_t samples : {17, 16}) train(*strategy, digits(2 * samples, 10), 2, samples, 0.05);
    return strategy->state_dict();
  };
  options.records = false;
  const auto expected = state_after("single", 1);
  options.records = true;
  for (const char* name : {"ddp", "data_parallel", "kvstore"}) {
    SCOPED_TRACE(name);
    expect_same_bits(state_after(name, 2), expected);
  }
}

TEST_F(CudaShards, ReplayTheirSteps) {
  for (const char* name : {"single", "ddp", "ddp_sharded", "data_parallel", "kvstore"}) {
    SCOPED_TRACE(name);
    StrategyOptions options{.net = residual_net(), .sgd = {.momentum = 0.9}};
    const auto outcome = [&](int64_t graph_steps) {
      const int gpus = name == std::string("single") ? 1 : 2;
      const auto strategy = sharded(options, name, gpus);
      Trained trained;
      // Two steps of 16 samples and one of 7, in micro-batches of a half.
      for (int epoch = 0; epoch < 3; ++epoch)
        std::ranges::copy(train(*strategy, digits(39, 10), 3, 16, 0.05, 2), std::back_inserter(trained.losses));
      for (int rank = 0; rank < gpus; ++rank) EXPECT_EQ(strategy->take_costs(rank).graph_steps, graph_steps);
      trained.state = strategy->state_dict();
      return trained;
    };
    const Trained recorded = outcome(7);
    options.records = false;
    expect_same_bits(recorded, outcome(0));
  }
}

}  // namespace gpu_shards_test
}  // namespace dptrain::parallel
