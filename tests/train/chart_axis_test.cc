#include "train/chart_axis.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dptrain::train {
namespace {

std::string labels_of(const ChartAxis& axis) {
  std::vector<std::string> labels;
  for (const ChartAxis::Tick& tick : axis.ticks()) labels.push_back(tick.label);
  return fmt::format("{}", fmt::join(labels, " "));
}

TEST(ChartAxis, TicksAreAtRoundNumbers) {
  EXPECT_EQ(labels_of(ChartAxis::between_ticks(58.1, 96.4)), "50 60 70 80 90 100");
  EXPECT_EQ(labels_of(ChartAxis::between_ticks(97.2, 98.4)), "97.0 97.5 98.0 98.5");
  EXPECT_EQ(labels_of(ChartAxis::between_ticks(0, 0.1)), "0 0.02 0.04 0.06 0.08 0.10");
  EXPECT_EQ(labels_of(ChartAxis::between_ticks(0, 1e-5)), "0 2·10⁻⁶ 4·10⁻⁶ 6·10⁻⁶ 8·10⁻⁶ 10⁻⁵");
  EXPECT_EQ(labels_of(ChartAxis::exact(0, 12345)), "0 5,000 10,000");
  EXPECT_EQ(labels_of(ChartAxis::exact(0, 0.9)), "0 0.2 0.4 0.6 0.8");
}

TEST(ChartAxis, EpochsAreCounted) {
  EXPECT_EQ(labels_of(ChartAxis::counted(1, 3)), "1 2 3");
  EXPECT_EQ(labels_of(ChartAxis::counted(1, 10)), "2 4 6 8 10");
  const ChartAxis one = ChartAxis::counted(1, 1);
  EXPECT_EQ(labels_of(one), "1");
  EXPECT_EQ(one.share(1), 0.5) << "in the middle";
}

TEST(ChartAxis, NumbersLieBetweenTheEnds) {
  const ChartAxis outside = ChartAxis::between_ticks(58, 96);
  EXPECT_EQ(outside.share(50), 0);
  EXPECT_EQ(outside.share(100), 1);
  EXPECT_NEAR(outside.share(75), 0.5, 1e-12);
  EXPECT_EQ(ChartAxis::exact(0, 7).share(7), 1);
  const ChartAxis ratios = ChartAxis::logarithmic(0.01, 1);
  EXPECT_GT(ratios.share(0.01), 0);
  EXPECT_LT(ratios.share(1), 1);
  EXPECT_NEAR(ratios.share(0.1), 0.5, 1e-12);
}

TEST(ChartAxis, ALogarithmIsForMoreThanAFactorOfTen) {
  EXPECT_FALSE(span_asks_for_logarithm(0.2, 2));
  EXPECT_TRUE(span_asks_for_logarithm(0.2, 2.1));
  EXPECT_FALSE(span_asks_for_logarithm(0, 2)) << "0 has no logarithm";
  EXPECT_FALSE(span_asks_for_logarithm(-1, 20));
}

TEST(ChartAxis, LogarithmicTicksFitTheSpan) {
  EXPECT_TRUE(ChartAxis::logarithmic(0.2, 2.1).is_logarithmic());
  EXPECT_EQ(labels_of(ChartAxis::logarithmic(0.19, 2.3)), "0.2 0.5 1 2");
  EXPECT_EQ(labels_of(ChartAxis::logarithmic(0.006, 2.3)), "0.01 0.1 1");
  EXPECT_EQ(labels_of(ChartAxis::logarithmic(1.2e-6, 1.3e-5)), "2·10⁻⁶ 5·10⁻⁶ 10⁻⁵");
  EXPECT_EQ(labels_of(ChartAxis::logarithmic(1e-7, 1e-5)), "10⁻⁷ 10⁻⁶ 10⁻⁵");
  EXPECT_EQ(labels_of(ChartAxis::logarithmic(1e-6, 4.8e27)), "10⁻⁷ 1 10⁷ 10¹⁴ 10²¹ 10²⁸");
}

TEST(ChartAxis, EqualNumbersAndTheLargestHaveAnAxis) {
  for (const double value : {0.0, 0.05, -3.0, 1e300, 1e-300})
    for (const ChartAxis& axis : {ChartAxis::between_ticks(value, value), ChartAxis::exact(value, value)}) {
      EXPECT_TRUE(std::isfinite(axis.share(value))) << value;
      EXPECT_FALSE(axis.ticks().empty()) << value;
      EXPECT_LE(axis.ticks().size(), 12u) << value;
    }
  // The next double is a thousand larger or more.
  const double large = 1e19, next = std::nextafter(large, std::numeric_limits<double>::infinity());
  for (const ChartAxis& axis : {ChartAxis::between_ticks(large, next), ChartAxis::counted(large, large)}) {
    EXPECT_TRUE(std::isfinite(axis.share(large)));
    EXPECT_LE(axis.ticks().size(), 12u);
  }
}

}  // namespace
}  // namespace dptrain::train
