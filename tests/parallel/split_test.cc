// Batches that are split by weight: only the work of each device changes, not the result.
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/digits.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace split_test {

const optim::SgdSettings kMomentum = {.momentum = 0.9};

struct Trained {
  State state;
  std::vector<int64_t> samples;  ///< for each rank
};

Trained trained(const StrategyOptions& options, const std::optional<BatchSplit>& split) {
  StrategyContext context = context_of(options);
  context.split = split;
  const auto strategy = make_strategy(options, context);
  train(*strategy, digits(4 * 30 + 7, 10), 5, 30, 0.1, options.micro_batches);
  Trained result{.state = strategy->state_dict(), .samples = {}};
  for (int rank = 0; rank < strategy->ranks(); ++rank) result.samples.push_back(strategy->take_costs(rank).samples);
  return result;
}

double largest_difference(const State& a, const State& b) {
  double largest = 0;
  for (size_t t = 0; t < a.size(); ++t)
    for (size_t i = 0; i < a[t].values.size(); ++i)
      largest = std::max(largest, std::abs(double{a[t].values[i]} - b[t].values[i]));
  return largest;
}

/// Parameters: strategy, and number of micro-batches.
class SplitTest : public ::testing::TestWithParam<std::tuple<const char*, int64_t>> {
 protected:
  StrategyOptions options() const {
    return {.name = std::get<0>(GetParam()), .devices = 3, .sgd = kMomentum, .micro_batches = std::get<1>(GetParam())};
  }
};

/// Weights are below 1/2, and each step rounds them to 2^-26, or 1.5e-8. The gradients' sums, made in another order,
/// add a similar error. Momentum carries the first of five steps' error into the later ones.
constexpr double kOtherOrder = 5e-7;

TEST_P(SplitTest, WeightsAreThoseOfOneDevice) {
  const State one = trained({.name = "single", .devices = 1, .sgd = kMomentum}, {}).state;
  for (const std::vector<double>& weights : {std::vector<double>{0.7, 0.2, 0.1}, {0.5, 0, 0.5}, {0, 0, 1}}) {
    SCOPED_TRACE(weights[0]);
    EXPECT_LE(largest_difference(trained(options(), BatchSplit::weighted(weights)).state, one), kOtherOrder);
  }
}

/// Tests shares of whole batches: shares of smaller batches are rounded more often.
class SplitShares : public SplitTest {};

TEST_P(SplitShares, EveryDeviceHasItsOwn) {
  EXPECT_EQ(trained(options(), BatchSplit::weighted({0.7, 0.3, 0})).samples,
            (std::vector<int64_t>{4 * 21 + 4, 4 * 9 + 3, 0}))
      << "of four batches of 30 and one of 7";
}

TEST_P(SplitTest, MeasuringChangesNothingThatIsTrained) {
  const StrategyOptions three = options();
  const auto strategy = make_strategy(three);
  const Datasets data = digits(90, 10);
  const std::vector<double> speeds = strategy->measure_speeds(*data.train, 10);
  ASSERT_EQ(speeds.size(), 3u);
  for (const double speed : speeds) EXPECT_GT(speed, 0);
  train(*strategy, data, 3, 30, 0.1, three.micro_batches);
  const auto other = make_strategy(three);
  train(*other, data, 3, 30, 0.1, three.micro_batches);
  EXPECT_EQ(largest_difference(strategy->state_dict(), other->state_dict()), 0);
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<const char*, int64_t>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

const auto kStrategies =
    ::testing::Values("data_parallel", "parallel_criterion", "ddp", "ddp_sharded", "fsdp", "kvstore", "kvstore_local");
INSTANTIATE_TEST_SUITE_P(Strategies, SplitTest, ::testing::Combine(kStrategies, ::testing::Values(1, 4)), case_name);
INSTANTIATE_TEST_SUITE_P(Strategies, SplitShares, ::testing::Combine(kStrategies, ::testing::Values(1)), case_name);
INSTANTIATE_TEST_SUITE_P(OwnTrainings, SplitShares, ::testing::Values(std::tuple{"local_sgd", 1}), case_name);

TEST(Split, MeasuringLeavesRunningStatistics) {
  const StrategyOptions options{.model = "resnet18", .devices = 1};
  const auto strategy = make_strategy(options);
  const auto before = strategy->state_dict();
  const Datasets data = digits(4, 1);
  strategy->measure_speeds(*data.train, 2);
  EXPECT_EQ(largest_difference(before, strategy->state_dict()), 0);
}

}  // namespace split_test
}  // namespace dptrain::parallel
