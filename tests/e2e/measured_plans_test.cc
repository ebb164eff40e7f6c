// The measurements of plans and hosts in docs/results appear in the tables of docs/scaling.md, and are within their
// bounds.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/source_tree.h"

namespace dptrain {
namespace {

using nlohmann::json;

constexpr double kMostOff = 0.15;

struct Measured {
  const char* file;
  int beyond = 0;  ///< number of plans with a larger error, which the page names
};

void PrintTo(const Measured& measured, std::ostream* out) { *out << measured.file; }

struct MeasuredPlans : ::testing::TestWithParam<Measured> {};

/// A row as scripts/scaling.py check prints it.
std::string row_of(const json& step) {
  std::vector<double> ratios;
  for (const json& round : step["rounds"])
    ratios.push_back(round["planned_s"].get<double>() / round["measured_s"].get<double>());
  const auto [least, most] = std::ranges::minmax(ratios);
  return fmt::format("| {} | {} | {} | {} | {:.1f} | {:.1f} | {:.2f} | {:.2f} to {:.2f} |",
                     step["model"].get<std::string>(), step["workers"].get<int>(), step["strategy"].get<std::string>(),
                     step["links"].get<std::string>(), 1e3 * step["planned_s"].get<double>(),
                     1e3 * step["measured_s"].get<double>(), step["ratio"].get<double>(), least, most);
}

TEST_P(MeasuredPlans, AreInATableWithTheirWorst) {
  const std::string page = testing::text_of(testing::source_file("docs/scaling.md"));
  const std::string file = fmt::format("results/{}.json", GetParam().file);
  const json steps = json::parse(testing::text_of(testing::source_file("docs/" + file)))["steps"];
  ASSERT_GT(steps.size(), 0u);
  double worst = 0;
  size_t within = 0;
  std::string table;
  for (const json& step : steps) {
    const double off = std::abs(step["ratio"].get<double>() - 1);
    worst = std::max(worst, off);
    within += off <= kMostOff;
    table += row_of(step) + "\n";
  }
  EXPECT_NE(page.find(table), std::string::npos) << "docs/scaling.md has not\n" << table;
  const std::string claim =
      within == steps.size()
          ? fmt::format("([all rounds]({})): all {} are within 15 %, the worst by {:.0f} %", file, within, 100 * worst)
          : fmt::format("([all rounds]({})): {} of {} are within 15 %, the worst is {:.0f} % off", file, within,
                        steps.size(), 100 * worst);
  // The words may be broken into lines anywhere.
  std::string words = page;
  std::ranges::replace(words, '\n', ' ');
  EXPECT_NE(words.find(claim), std::string::npos) << claim;
  EXPECT_EQ(steps.size() - within, static_cast<size_t>(GetParam().beyond));
}

INSTANTIATE_TEST_SUITE_P(Results, MeasuredPlans,
                         ::testing::Values(Measured{"plan-threads"}, Measured{"plan-threads-strategies"},
                                           Measured{"plan-threads-hybrid"}, Measured{"plan-hosts"},
                                           Measured{"plan-hosts-strategies", 4}),
                         [](const auto& measured) {
                           std::string name = measured.param.file;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// Tests run without PyTorch, so this one reads what scripts/bench_hosts.py --assert found, from docs/results. The two
/// programs give bit-identical weights.
TEST(MeasuredHosts, DdpIsOneAndAHalfTimesAsFastAsPyTorchOver1Gbit) {
  const json document = json::parse(testing::text_of(testing::source_file("docs/results/hosts-1gbit.json")));
  std::vector<std::string> models;
  for (const json& result : document["results"]) {
    models.push_back(result["model"]);
    const auto median_of = [&](const char* name) {
      std::vector<double> steps;
      for (const json& round : result["rounds"]) steps.push_back(round[name]["steps_per_s"]);
      std::ranges::sort(steps);
      return steps.at(steps.size() / 2);
    };
    EXPECT_GE(std::max(median_of("ddp"), median_of("ddp, next_forward")), 1.5 * median_of("pytorch ddp, gloo"))
        << models.back();
  }
  EXPECT_EQ(models, (std::vector<std::string>{"lenet", "resnet18"}));
}

/// Training on the 8,000 digits of datasets/mnist-10k takes as many updates as ten epochs of 60,000 images.
TEST(MeasuredRates, AreOfAsManyUpdatesAsThePageSays) {
  const std::string page = testing::text_of(testing::source_file("docs/scaling.md"));
  constexpr int kSamples = 8000, kEpochs = 75;
  EXPECT_NE(page.find(fmt::format("--set epochs={} ", kEpochs)), std::string::npos);
  for (const int batch : {256, 512, 1024, 2048, 4096}) {
    const std::string row =
        fmt::format("\n| {} | {:g} | {} | ", batch, 0.1 * batch / 256, kEpochs * ((kSamples + batch - 1) / batch));
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace dptrain
