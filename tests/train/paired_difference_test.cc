#include "train/paired_difference.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace dptrain::train {
namespace {

TEST(Spread, IsMeanAndSampleDeviation) {
  const Spread spread = spread_of(std::vector<double>{2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_DOUBLE_EQ(spread.mean, 5);
  EXPECT_NEAR(spread.deviation, 2.138089935299395, 1e-12) << "the root of 32 / 7";
  EXPECT_EQ(spread_of(std::vector<double>{3}).deviation, 0);
}

TEST(StudentT, HasTheQuantilesOfTheTables) {
  // Two-sided quantiles for 95 % and 99 %, with three decimals as in every table of Student's t.
  struct Quantile {
    int degrees_of_freedom;
    double of_95, of_99;
  };
  for (const Quantile& row :
       {Quantile{1, 12.706, 63.657}, Quantile{2, 4.303, 9.925}, Quantile{3, 3.182, 5.841}, Quantile{4, 2.776, 4.604},
        Quantile{5, 2.571, 4.032}, Quantile{9, 2.262, 3.250}, Quantile{10, 2.228, 3.169}, Quantile{30, 2.042, 2.750}}) {
    SCOPED_TRACE(row.degrees_of_freedom);
    // Half a unit of the third decimal changes the probability by less than this tolerance.
    EXPECT_NEAR(student_t_within(row.of_95, row.degrees_of_freedom), 0.95, 1e-4);
    EXPECT_NEAR(student_t_within(-row.of_99, row.degrees_of_freedom), 0.99, 1e-4);
  }
  EXPECT_EQ(student_t_within(0, 7), 0);
}

TEST(PairedDifference, KnowsATextbooksExample) {
  // Student's own ten patients (1908): additional hours of sleep by two soporifics; t = 4.062, p = 0.0028.
  const std::vector<double> first = {0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
  const std::vector<double> second = {1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};
  const PairedDifference found = paired_difference(first, second);
  EXPECT_NEAR(found.mean, 1.58, 1e-12);
  EXPECT_NEAR(found.p_value, 0.00283, 1e-5);
  EXPECT_TRUE(found.significant);
  EXPECT_NEAR(paired_difference(second, first).mean, -1.58, 1e-12);
}

TEST(PairedDifference, OfDifferencesThatAreAllAlikeIsCertain) {
  const PairedDifference none = paired_difference(std::vector{1.0, 2.0}, std::vector{1.0, 2.0});
  EXPECT_FALSE(none.significant);
  EXPECT_EQ(none.p_value, 1);
  for (const double more : {0.5, -0.5}) {
    const PairedDifference alike = paired_difference(std::vector{1.0, 2.0}, std::vector{1 + more, 2 + more});
    EXPECT_TRUE(alike.significant);
    EXPECT_EQ(alike.p_value, 0);
    EXPECT_EQ(alike.mean, more);
  }
}

/// For two differences a and b, t is (a + b) / (a - b). The table's quantile for one degree of freedom is 12.706.
TEST(PairedDifference, IsSignificantFromTheQuantileOn) {
  const auto with_t = [](double t) { return paired_difference(std::vector{0.0, 0.0}, std::vector{t + 1, t - 1}); };
  EXPECT_FALSE(with_t(12.70).significant);
  EXPECT_TRUE(with_t(12.71).significant);
  EXPECT_FALSE(with_t(-12.70).significant);
  EXPECT_TRUE(with_t(-12.71).significant);
}

TEST(PairedDifference, HasAProbabilityThatIsOne) {
  for (int repetitions = 2; repetitions < 40; ++repetitions)
    for (const double t : {0.0, 1e-9, 3.0, 1e6, 1e15, 1e300}) {
      std::vector<double> first(static_cast<size_t>(repetitions)), second(first.size(), t);
      second.front() += 1;
      const double p = paired_difference(first, second).p_value;
      EXPECT_GE(p, 0) << repetitions << " " << t;
      EXPECT_LE(p, 1) << repetitions << " " << t;
    }
}

class ManyComparisons : public ::testing::TestWithParam<int> {
 protected:
  /// The share of `trials` in which two runs are found to differ, where the second run's values are larger by `shift`
  /// standard deviations.
  double significant_share(double shift, int trials) {
    std::mt19937 random(7);
    std::normal_distribution<double> noise(0, 0.002), of_seed(0.97, 0.01);
    int significant = 0;
    for (int trial = 0; trial < trials; ++trial) {
      std::vector<double> first, second;
      for (int i = 0; i < GetParam(); ++i) {
        const double seed = of_seed(random);
        first.push_back(seed + noise(random));
        second.push_back(seed + noise(random) + shift * 0.002);
      }
      significant += paired_difference(first, second).significant ? 1 : 0;
    }
    return static_cast<double>(significant) / trials;
  }
};

TEST_P(ManyComparisons, EqualRunsAreToldApartInOneOfTwentyOnly) {
  // The expected share is 5 % of 4,000 trials with a deviation of 0.34 %; the tolerance is six deviations.
  EXPECT_NEAR(significant_share(0, 4000), 0.05, 0.02);
}

TEST_P(ManyComparisons, ARealDifferenceIsFound) {
  if (GetParam() >= 5) {
    EXPECT_GT(significant_share(4, 1000), 0.95);
  }
  EXPECT_GT(significant_share(4, 1000), significant_share(0, 1000));
}

INSTANTIATE_TEST_SUITE_P(Repetitions, ManyComparisons, ::testing::Values(2, 3, 5, 10));

}  // namespace
}  // namespace dptrain::train
