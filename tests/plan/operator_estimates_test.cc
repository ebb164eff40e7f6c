#include "plan/operator_estimates.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

using plan::DeviceFigures;
using plan::OperatorEstimates;
using Basis = OperatorEstimates::Basis;

/// By these figures a product of one second has one flop, and a second of memory traffic has 800 bytes.
DeviceFigures simple_figures() {
  return {.name = "unit", .fp32_flops = 2, .memory_bytes_per_s = 1000, .inside = {}, .source = "a test"};
}

/// Measurements with each call made once.
plan::MeasuredOperators measured(const std::vector<OperatorCost>& calls, double beside_s = 0) {
  plan::MeasuredOperators all{.calls = {}, .beside_s = beside_s};
  for (const OperatorCost& call : calls) all.calls.push_back({.one = call});
  return all;
}

OperatorCost product(double flops, const std::string& operands, double seconds = 0) {
  return {.name = "linear", .flops = flops, .operands = operands, .seconds = seconds};
}

TEST(OperatorEstimates, AreTheFiguresWhereNothingWasMeasured) {
  const OperatorEstimates estimates(simple_figures(), Precision::fp32);
  EXPECT_FALSE(estimates.is_measured());
  EXPECT_DOUBLE_EQ(estimates.seconds(product(3, "[3, 1]")), 3);
  EXPECT_EQ(estimates.estimate(product(3, "[3, 1]")).basis, Basis::figures);
  EXPECT_EQ(estimates.beside_s(), 0);
}

TEST(OperatorEstimates, OfTheSameOperandsAreTheirMean) {
  const OperatorEstimates estimates(
      simple_figures(), Precision::fp32,
      measured({product(3, "[3, 1]", 30), product(3, "[3, 1]", 60), product(300, "[300, 1]", 600)}, 5));
  const auto [seconds, basis] = estimates.estimate(product(3, "[3, 1]"));
  EXPECT_DOUBLE_EQ(seconds, 45);
  EXPECT_EQ(basis, Basis::same_operands);
  EXPECT_EQ(estimates.beside_s(), 5);
  // A call that was made three times weighs as much as three calls.
  plan::MeasuredOperators weighed = measured({product(3, "[3, 1]", 30), product(3, "[3, 1]", 60)});
  weighed.calls[0].count = 3;
  EXPECT_DOUBLE_EQ(OperatorEstimates(simple_figures(), Precision::fp32, weighed).seconds(product(3, "[3, 1]")), 37.5);
}

TEST(OperatorEstimates, OfOtherOperandsAreScaledFromTheNearest) {
  // The small product reaches a tenth of the figures, the large one half.
  const OperatorEstimates estimates(simple_figures(), Precision::fp32,
                                    measured({product(3, "[3, 1]", 30), product(300, "[300, 1]", 600)}));
  EXPECT_DOUBLE_EQ(estimates.seconds(product(6, "[6, 1]")), 60);
  EXPECT_DOUBLE_EQ(estimates.seconds(product(150, "[150, 1]")), 300);
  EXPECT_EQ(estimates.estimate(product(6, "[6, 1]")).basis, Basis::same_operator);
}

TEST(OperatorEstimates, OfOtherSamplesAreScaledFromTheSameLayer) {
  // It doesn't matter that the other layer is closer in size.
  const OperatorEstimates estimates(simple_figures(), Precision::fp32,
                                    measured({product(160, "[16, 64, 28, 28] [64, 64, 3, 3]", 480),
                                              product(90, "[16, 512, 4, 4] [512, 512, 3, 3]", 900)}));
  EXPECT_DOUBLE_EQ(estimates.seconds(product(80, "[8, 64, 28, 28] [64, 64, 3, 3]")), 240);
  EXPECT_DOUBLE_EQ(estimates.seconds(product(45, "[8, 512, 4, 4] [512, 512, 3, 3]")), 450);
}

TEST(OperatorEstimates, OfOperatorsThatAreGivenNothingAreTimesToo) {
  const OperatorEstimates estimates(simple_figures(), Precision::fp32,
                                    measured({{.name = "stamp_time", .seconds = 3}, product(3, "[3, 1]", 30)}));
  EXPECT_DOUBLE_EQ(estimates.seconds({.name = "stamp_time", .operands = "[0]"}), 3);
  EXPECT_DOUBLE_EQ(estimates.seconds({.name = "stamp_time", .bytes = 800, .operands = "[200]"}), 3);
  EXPECT_DOUBLE_EQ(estimates.seconds({.name = "publish"}), 0);
  EXPECT_DOUBLE_EQ(estimates.seconds(product(0, "[0, 1]")), 30);
}

TEST(OperatorEstimates, OfOperatorsThatWerentMeasuredDifferFromTheFiguresAsOthersOfTheirKind) {
  const OperatorEstimates estimates(
      simple_figures(), Precision::fp32,
      measured({product(10, "[10]", 20), {.name = "tanh", .bytes = 800, .operands = "[200]", .seconds = 7}}));
  const OperatorCost convolution{.name = "conv2d", .flops = 5, .operands = "[10]"}, add{.name = "add", .bytes = 1600};
  EXPECT_DOUBLE_EQ(estimates.seconds(convolution), 10);
  EXPECT_DOUBLE_EQ(estimates.seconds(add), 14);
  EXPECT_EQ(estimates.estimate(add).basis, Basis::figures);
}

TEST(OperatorEstimates, TellSharesOfTime) {
  const OperatorEstimates estimates(simple_figures(), Precision::fp32, measured({product(10, "[10]", 20)}));
  const plan::EstimateShares shares =
      plan::shares_of(estimates, {product(10, "[10]"), product(5, "[5]"), {.name = "conv2d", .flops = 5}});
  EXPECT_DOUBLE_EQ(shares.same_operands, 0.5);
  EXPECT_DOUBLE_EQ(shares.same_operator, 0.25);
  EXPECT_DOUBLE_EQ(shares.figures, 0.25);
}

}  // namespace
}  // namespace dptrain
