// A net with a branch that only every second step uses: what the loss doesn't depend on has a gradient of zero, and ddp
// asks for it to be said. That all strategies learn the same from it stands in parity_matrix_test.cc.
#include <gtest/gtest.h>

#include "parallel/half_used_net.h"
#include "support/expect_error.h"

namespace dptrain::parallel {
namespace {

constexpr int64_t kBatch = 20;

std::unique_ptr<Strategy> half_used(StrategyOptions options) {
  options.net = half_used_net();
  return make_strategy(options);
}

void train_step(Strategy& strategy, int64_t step) {
  train_steps_as_epochs(strategy, digits(2 * kBatch, 10), {.first = step, .last = step, .batch = kBatch});
}

TEST(UnusedParameters, MoveByMomentumAndWeightDecayAlone) {
  // Step 1 uses the branch, step 2 doesn't: its velocity goes on.
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
    // Weights under 1/2 are rounded to 2^-26 by each of the updates, and so are their differences.
    EXPECT_NEAR(branch(after)[i] - branch(between)[i], 0.5f * first, 1e-7);
  }
}

TEST(UnusedParameters, EndATrainingUnderDdpUnlessAskedFor) {
  for (const bool overlap : {true, false})
    for (const int devices : {1, 3}) {
      const auto strategy = half_used({.devices = devices, .buckets = {.overlap = overlap}});
      train_step(*strategy, 1);
      testing::expect_error(ExitCode::config,
                            {"step 2: parameters branch.weight, branch.bias got no gradient", "find_unused: true"},
                            [&] { train_step(*strategy, 2); });
    }
}

}  // namespace
}  // namespace dptrain::parallel
