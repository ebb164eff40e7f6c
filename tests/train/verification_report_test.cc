#include "train/verification_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace dptrain::train {
namespace {

TEST(VerificationReport, CountsWhatIsAllNoise) {
  VerifiedRow row{.name = "ddp", .layers = {{.found = {.pass = ComparedPass::backward, .layer = "conv.weight"}}}};
  const VerifiedLayer noise{.found = {.pass = ComparedPass::backward, .layer = "conv.bias", .difference = 2},
                            .allowed = {.bound = 14, .all_noise = true}};
  EXPECT_EQ(VerificationReport{.rows = {row}}.text(200).find("noise"), std::string::npos);
  row.layers.push_back(noise);
  VerifiedRow other = row;
  other.name = "kvstore";
  const VerificationReport report{.rows = {row, other}};
  const std::string sentence = "With 1 micro-batch 1 of 2 layers is all noise and can't fail: backward conv.bias.";
  const std::string text = report.text(200);
  EXPECT_NE(text.find(sentence), std::string::npos) << text;
  EXPECT_EQ(text.find(sentence), text.rfind(sentence)) << "once for all that are compared with the same";
  const auto document = nlohmann::json::parse(report.json());
  EXPECT_EQ(document["strategies"][0]["all_noise"], 1);
  EXPECT_TRUE(document["strategies"][0]["layers"][1]["all_noise"]);
  EXPECT_EQ(document["equal"], true);
}

TEST(VerificationReport, ShardsAreATableOfTheirOwnThatFitsATerminal) {
  const VerifiedLayer layer{.found = {.pass = ComparedPass::backward, .layer = "conv.weight"}};
  const VerificationReport report{
      .rows = {{.name = "data_parallel, gathered", .layers = {layer}},
               {.name = "hybrid", .verdict = Verdict::not_compared, .reason = "needs at least 4 devices, got 2"},
               {.name = "data_parallel, gathered, shards: 8", .shards = 8, .layers = {layer}}}};
  const std::string text = report.text(80);
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) lines.push_back(line);
  const auto begins_with = [](const std::string& beginning) {
    return [beginning](const std::string& line) { return line.starts_with(beginning); };
  };
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
  for (const char* header : {"strategy ", "strategy, shards: 8 "}) {
    const auto found = std::ranges::find_if(lines, begins_with(header));
    ASSERT_NE(found, lines.end()) << text;
    EXPECT_TRUE(found->ends_with("verdict")) << "a row's verdict stands beside it\n" << text;
  }
  EXPECT_EQ(std::ranges::count_if(lines, begins_with("data_parallel, gathered ")), 2) << text;
}

}  // namespace
}  // namespace dptrain::train
