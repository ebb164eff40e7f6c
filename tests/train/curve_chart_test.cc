#include "train/curve_chart.h"

#include <gtest/gtest.h>

#include <limits>
#include <regex>

#include "support/html_page.h"
#include "train/stacked_bar.h"

namespace dptrain::train {
namespace {

using testing::count_of;
using testing::html_mistakes;

/// A chart of curves with these consecutive values.
CurveChart chart_of(const std::vector<std::vector<double>>& curves,
                    CurveChart::Values values = CurveChart::Values::loss) {
  CurveChart chart{.title = "Training loss", .values = values, .curves = {}};
  for (size_t i = 0; i < curves.size(); ++i) {
    Curve curve{.name = "run " + std::to_string(i), .points = {}, .look = i};
    for (const double value : curves[i])
      curve.points.push_back({.across = static_cast<double>(curve.points.size() + 1), .value = value});
    chart.curves.push_back(curve);
  }
  return chart;
}

TEST(CurveChart, ShowsALineAndItsPoints) {
  const std::string html = chart_of({{2, 1.5, 1}}).html();
  EXPECT_EQ(html_mistakes(html), std::vector<std::string>());
  EXPECT_EQ(count_of(html, "<polyline"), 1u);
  EXPECT_EQ(count_of(html, "class=\"mark l0\""), 3u);
  EXPECT_NE(html.find("<title>run 0: epoch 2, 1.5000</title>"), std::string::npos) << html;
  EXPECT_NE(html.find("aria-label=\"Training loss over epochs, of 1 run: from 1.0000 to 2.0000\""), std::string::npos)
      << html;
}

TEST(CurveChart, OneEpochIsAMarker) {
  const std::string html = chart_of({{2}}).html();
  EXPECT_EQ(html_mistakes(html), std::vector<std::string>());
  EXPECT_EQ(count_of(html, "<polyline"), 0u);
  EXPECT_EQ(count_of(html, "class=\"mark l0\""), 1u);
}

TEST(CurveChart, LossesFarApartHaveALogarithmicAxis) {
  EXPECT_EQ(chart_of({{2, 0.2}}).html().find("logarithmic"), std::string::npos);
  EXPECT_NE(chart_of({{2, 0.19}}).html().find("<small>logarithmic</small>"), std::string::npos);
  EXPECT_EQ(chart_of({{2, 0}}).html().find("logarithmic"), std::string::npos);
  EXPECT_EQ(chart_of({{0.99, 0.01}}, CurveChart::Values::accuracy).html().find("logarithmic"), std::string::npos)
      << "of losses alone";
}

TEST(CurveChart, AccuraciesAreInPercent) {
  const std::string html = chart_of({{0.5, 0.9725}}, CurveChart::Values::accuracy).html();
  EXPECT_NE(html.find("epoch 2, 97.25 %"), std::string::npos) << html;
  EXPECT_NE(html.find(">100</text>"), std::string::npos) << "a tick";
}

TEST(CurveChart, WhatIsNoNumberIsLeftOut) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(chart_of({{kNan}, {kInf}}).empty());
  EXPECT_EQ(chart_of({{kNan}}).html(), "");
  const std::string html = chart_of({{2, kNan, kInf, 1}, {kNan}}).html();
  EXPECT_EQ(count_of(html, "class=\"mark "), 2u);
  EXPECT_FALSE(std::regex_search(html, std::regex("\\b(nan|inf)\\b"))) << html;
}

TEST(CurveChart, NamesAreEscaped) {
  CurveChart chart = chart_of({{2, 1}});
  chart.curves[0].name = "<script>\"&'";
  chart.title = "a < b";
  const std::string html = chart.html();
  EXPECT_EQ(html_mistakes(html), std::vector<std::string>());
  EXPECT_NE(html.find("&lt;script&gt;&quot;&amp;&#39;"), std::string::npos);
}

TEST(CurveChart, TheFirstIsTheWidestAndGrayOnesLieBehind) {
  CurveChart chart = chart_of({{2, 1}, {2, 1}, {3, 1}});
  chart.curves[1].look.reset();
  const std::string html = chart.html();
  const size_t gray = html.find("class=\"line behind\" stroke-width=\"1.00\"");
  const size_t first = html.find("class=\"line l0\" stroke-width=\"3.40\"");
  const size_t last = html.find("class=\"line l2\" stroke-width=\"1.60\"");
  ASSERT_NE(gray, std::string::npos) << html;
  EXPECT_LT(gray, first);
  EXPECT_LT(first, last);
  EXPECT_EQ(count_of(html, "class=\"mark "), 4u) << "the gray one has no markers";
}

TEST(CurveChart, ARunThatGoesOnHasAnOpenEnd) {
  CurveChart chart = chart_of({{2, 1}, {2, 1}});
  chart.curves[1].goes_on = true;
  EXPECT_EQ(count_of(chart.html(), "class=\"open l1\""), 1u);
  EXPECT_EQ(count_of(chart.html(), "class=\"open l0\""), 0u);
}

TEST(CurveChart, ALongTrainingHasPointsThatCanBeTold) {
  std::vector<double> losses(20000, 0.5);
  losses.front() = 1;
  const std::string html = chart_of({losses}).html();
  EXPECT_EQ(count_of(html, "class=\"mark "), 0u);
  EXPECT_LT(html.size(), 20000u) << "two points a unit of the picture at most";
  EXPECT_NE(html.find("506.0,"), std::string::npos) << "up to the right end";
}

TEST(CurveChart, EachLookIsOfItsOwn) {
  std::set<std::string> samples;
  for (size_t look = 0; look < kCurveLooks; ++look) samples.insert(curve_sample(look));
  samples.insert(curve_sample(std::nullopt));
  EXPECT_EQ(samples.size(), kCurveLooks + 1);
}

TEST(StackedBar, PartsLieBehindEachOther) {
  const std::string bar = stacked_bar({{.name = "compute", .value = 3, .text = "3 s", .fill = 0},
                                       {.name = "wait & see", .value = 0, .text = "0 s", .fill = 1},
                                       {.name = "other", .value = -1e-9, .text = "0 s", .fill = 5},
                                       {.name = "data <wait>", .value = 1, .text = "1 s", .fill = 4}},
                                      8);
  EXPECT_EQ(html_mistakes(bar_fills() + bar), std::vector<std::string>());
  EXPECT_NE(bar.find("fill=\"url(#fill0)\" x=\"0.00%\" width=\"37.50%\""), std::string::npos) << bar;
  EXPECT_NE(bar.find("fill=\"url(#fill4)\" x=\"37.50%\" width=\"12.50%\""), std::string::npos) << bar;
  EXPECT_EQ(count_of(bar, "<rect"), 2u) << "what is nothing is left out";
  EXPECT_NE(bar.find("aria-label=\"compute 3 s, data &lt;wait&gt; 1 s\""), std::string::npos) << bar;
  EXPECT_EQ(count_of(stacked_bar({}, 0), "<rect"), 0u);
}

}  // namespace
}  // namespace dptrain::train
