#include "train/config_difference.h"

#include <gtest/gtest.h>

#include "config/config_document.h"

namespace dptrain::train {
namespace {

std::vector<std::string> differing(const std::vector<const char*>& texts, const std::vector<std::string>& except = {}) {
  std::vector<ConfigNode> configs;
  for (const char* text : texts) configs.push_back(parse_config(text, "test.yaml"));
  std::vector<std::string> lines;
  for (const DifferingKey& key : differing_keys(configs, except)) {
    lines.push_back(key.key + ":");
    for (const auto& value : key.values) lines.back() += " " + value;
  }
  return lines;
}

TEST(ConfigDifference, GoesKeyByKeyThroughMappings) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(differing({"a: 1\nb: {c: 2, d: [1, 2]}\n", "a: 1\nb: {c: 3, d: [1, 2]}\n"}), Lines{"b.c: 2 3"});
  EXPECT_EQ(differing({"a: 1\nd: [1, 2]\n", "a: 2\nd: [1]\n"}), (Lines{"a: 1 2", "d: [1, 2] [1]"}));
  EXPECT_EQ(differing({"a: 1\n", "a: 1\nb: 2\n", "a: 1\n"}), Lines{"b: - 2 -"});
  EXPECT_EQ(differing({"a: 1\n", "a: 1\n"}), Lines{});
}

TEST(ConfigDifference, ANameWithOptionsIsThatName) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(differing({"strategy: ddp\n", "strategy: {name: ddp, overlap: false}\n"}),
            Lines{"strategy.overlap: - false"});
  EXPECT_EQ(differing({"strategy: ddp\n", "strategy: {name: single}\n"}), Lines{"strategy: ddp single"});
  EXPECT_EQ(differing({"name: a\n", "name: b\n"}), Lines{"name: a b"}) << "a key of its own at the top";
}

TEST(ConfigDifference, OptionsThatComeWithAnotherNameAreLeftOut) {
  const auto kept = [](const std::vector<const char*>& texts) {
    std::vector<ConfigNode> configs;
    for (const char* text : texts) configs.push_back(parse_config(text, "test.yaml"));
    std::vector<std::string> names;
    for (const DifferingKey& key : without_options_of_names(differing_keys(configs, {}))) names.push_back(key.key);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(kept({"s: {name: ddp, mb: 25}\na: 1\n", "s: {name: kvstore, type: local}\na: 2\n"}), (Names{"s", "a"}));
  EXPECT_EQ(kept({"s: {name: ddp, mb: 25}\n", "s: {name: ddp, mb: 5}\n", "s: single\n"}), (Names{"s", "s.mb"}));
  EXPECT_EQ(kept({"s: {name: ddp, mb: 25}\n", "s: ddp\n"}), Names{"s.mb"}) << "the names are alike";
  EXPECT_EQ(kept({"dataset: {name: mnist, limit: 5}\n", "dataset: cifar10\n"}), (Names{"dataset", "dataset.limit"}));
}

TEST(ConfigDifference, GoesItemByItemThroughListsOfMappings) {
  using Lines = std::vector<std::string>;
  const auto layers = [](const std::string& items) {
    return "layers: [conv: {channels: 4}, " + items + ", flatten]\n";
  };
  const auto lines = [&](const std::string& a, const std::string& b) {
    const std::string first = layers(a), second = layers(b);
    return differing({first.c_str(), second.c_str()});
  };
  EXPECT_EQ(lines("relu, linear: {features: 64, bias: true}", "relu, linear: {features: 128, bias: true}"),
            Lines{"layers[2].linear.features: 64 128"});
  EXPECT_EQ(lines("relu", "tanh"), Lines{"layers[1]: relu tanh"});
  EXPECT_EQ(lines("relu", "linear: {features: 64}"), Lines{"layers[1]: relu {linear: {features: 64}}"});
  EXPECT_EQ(lines("conv: {channels: 8}", "linear: {features: 64}"),
            Lines{"layers[1]: {conv: {channels: 8}} {linear: {features: 64}}"});
  // The lists differ in length: the difference is what is between the items that both have.
  EXPECT_EQ(lines("relu, linear: {features: 64}", "linear: {features: 64}"), Lines{"layers[1...]: [relu] []"});
  EXPECT_EQ(lines("relu", "relu, relu"), Lines{"layers[2...]: [] [relu]"});
}

TEST(ConfigDifference, LeavesOutWhatItIsTold) {
  EXPECT_EQ(differing({"a: {b: 1}\nc: 1\n", "a: {b: 2}\nc: 2\n"}, {"a"}), std::vector<std::string>{"c: 1 2"});
}

}  // namespace
}  // namespace dptrain::train
