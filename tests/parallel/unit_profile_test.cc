// The cost of each unit of a model, by which a pipeline is cut. Frozen units at the beginning cost a forward pass only.
#include "parallel/unit_profile.h"

#include <gtest/gtest.h>

#include "models/frozen.h"
#include "parallel/pipelines.h"

namespace dptrain::parallel {
namespace unit_profile_test {

/// The flops of products in each of LeNet's three units.
std::vector<double> flops_of(const std::vector<std::string>& frozen) {
  StrategyContext context = context_of({.devices = 1});
  context.replica.model = models::with_frozen(models::find_model("lenet"), frozen, "freeze");
  std::vector<CallLog> calls(1);
  context.team.logged = {.calls = &calls, .operator_s = [](const OperatorCost& cost) { return cost.flops; }};
  std::vector<double> flops;
  for (const UnitCost& unit : profile_units(context)) flops.push_back(unit.seconds);
  return flops;
}

TEST(UnitProfile, OfAFrozenBeginningIsForwardAlone) {
  const std::vector<double> all = flops_of({}), one = flops_of({"conv1"}), two = flops_of({"conv1", "conv2"}),
                            middle = flops_of({"conv2"});
  ASSERT_EQ(all.size(), 3u);
  // No gradient goes back to the images. One goes back to conv1's output, unless conv1 is frozen.
  EXPECT_LT(one[0], all[0]);
  EXPECT_LT(one[1], all[1]);
  EXPECT_EQ(one[2], all[2]);
  EXPECT_EQ(two[0], one[0]);
  EXPECT_LT(two[1], one[1]);
  EXPECT_LT(two[2], one[2]);
  // A frozen unit behind it still passes gradients back.
  EXPECT_EQ(middle[0], all[0]);
  EXPECT_GT(middle[1], two[1]);
  EXPECT_EQ(middle[2], all[2]);
}

/// The cost of a residual with this many linear layers, for 8 samples of 64 features: 2048 bytes.
UnitCost cost_of_residual(int linear_layers) {
  std::string written = "[flatten, linear: 64, residual: {layers: [linear: 64";
  for (int i = 1; i < linear_layers; ++i) written += ", tanh, linear: 64";
  StrategyContext context = context_of({.net = net_of_layers(written + "]}, linear: classes]"), .devices = 1});
  std::vector<CallLog> calls(1);
  context.team.logged = {.calls = &calls, .operator_s = {}};
  return profile_units(context).at(2);
}

/// A single backward pass releases on its way what a split one must keep for the gradients of weights.
TEST(UnitProfile, WhatWeightsWaitForIsNoPartOfASinglePass) {
  constexpr int64_t kTensor = 8 * 64 * 4;
  const UnitCost shallow = cost_of_residual(4), deep = cost_of_residual(10);
  EXPECT_EQ(deep.most_bytes, shallow.most_bytes);
  EXPECT_EQ(deep.input_bytes, kTensor) << "what the unit before gives";
  // Each layer keeps its input and the gradient of its output.
  EXPECT_GE(deep.kept_for_weights_bytes, shallow.kept_for_weights_bytes + 6 * 2 * kTensor);
}

}  // namespace unit_profile_test
}  // namespace dptrain::parallel
