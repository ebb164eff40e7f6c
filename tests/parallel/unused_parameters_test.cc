// A net with a branch that only every second step uses: parameters that the loss doesn't depend on have gradients of
// zero, and ddp needs an option for that. parity_matrix_test.cc tests that all strategies learn the same.
#include <gtest/gtest.h>

#include "parallel/half_used_net.h"
#include "support/expect_error.h"

namespace dptrain::parallel {
namespace unused_parameters_test {

constexpr int64_t kBatch = 20;

std::unique_ptr<Strategy> half_used(StrategyOptions options) {
  options.net = half_used_net();
  return make_strategy(options);
}

void train_step(Strategy& strategy, int64_t step) {
  train_steps_as_epochs(strategy, digits(2 * kBatch, 10), {.first = step, .last = step, .batch = kBatch});
}

TEST(UnusedParameters, MoveByMomentumAndWeightDecayAlone) {
  // Step 1 uses the branch, step 2 doesn't: the branch's velocity still applies.
  const auto strategy = half_used({.devices = 2, .find_unused = true, .sgd = {.momentum = 0.5}});
  const auto before = strategy->state_dict();
  train_step(*strategy, 1);
  const auto between = strategy->state_dict();
  train_step(*strategy, 2);
  const auto after = strategy->state_dict();
  const auto branch = [](const std::vector<nn::NamedValues>& state) -> const std::vector<float>& {
    for (const auto& tensor : state)
      if (tensor.name == "branch.bias") return tensor.values;
    throw std::logic_error("no branch.bias");
  };
  for (size_t i = 0; i < branch(before).size(); ++i) {
    const float first = branch(between)[i] - branch(before)[i];
    EXPECT_NE(first, 0);
    // Each update rounds weights below 1/2 to 2^-26, so their differences have such errors.
    EXPECT_NEAR(branch(after)[i] - branch(between)[i], 0.5f * first, 1e-7);
  }
}

/// A variant of ddp that must find unused parameters.
struct UnusedCase {
  const char* name;
  StrategyOptions options;
  int shards = 0;
};

class UnusedParametersOfDdp : public ::testing::TestWithParam<UnusedCase> {};

TEST_P(UnusedParametersOfDdp, EndATrainingUnlessAskedFor) {
  for (const int devices : {1, 3}) {
    SCOPED_TRACE(::testing::Message() << devices << " devices");
    StrategyOptions options = GetParam().options;
    options.net = half_used_net();
    options.devices = devices;
    StrategyContext context = context_of(options);
    context.shards = GetParam().shards;
    const auto strategy = make_strategy(options, context);
    train_step(*strategy, 1);
    testing::expect_error(ExitCode::config,
                          {"step 2: parameters branch.weight, branch.bias got no gradient", "find_unused: true"},
                          [&] { train_step(*strategy, 2); });
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, UnusedParametersOfDdp,
                         ::testing::Values(UnusedCase{.name = "overlap", .options = {}},
                                           UnusedCase{.name = "no_overlap", .options = {.buckets = {.overlap = false}}},
                                           UnusedCase{.name = "next_forward",
                                                      .options = {.buckets = {.defer_updates = true}}},
                                           UnusedCase{.name = "shard_optimizer", .options = {.name = "ddp_sharded"}},
                                           UnusedCase{.name = "bf16", .options = {.name = "ddp_bf16"}},
                                           UnusedCase{.name = "powersgd", .options = {.name = "ddp_powersgd"}},
                                           UnusedCase{.name = "two_bit", .options = {.name = "ddp_two_bit"}},
                                           UnusedCase{.name = "shards", .options = {}, .shards = 3}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace unused_parameters_test
}  // namespace dptrain::parallel
