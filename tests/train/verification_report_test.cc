#include "train/verification_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
  const std::string sentence = "With 1 micro-batch 1 of 2 layers is all noise, which can't fail: backward conv.bias.";
  const std::string text = report.text(200);
  EXPECT_NE(text.find(sentence), std::string::npos) << text;
  EXPECT_EQ(text.find(sentence), text.rfind(sentence)) << "once for all that are compared with the same";
  const auto document = nlohmann::json::parse(report.json());
  EXPECT_EQ(document["strategies"][0]["all_noise"], 1);
  EXPECT_TRUE(document["strategies"][0]["layers"][1]["all_noise"]);
  EXPECT_EQ(document["equal"], true);
}

}  // namespace
}  // namespace dptrain::train
