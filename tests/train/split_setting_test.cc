#include "train/split_setting.h"

#include <gtest/gtest.h>

#include "config/config_document.h"
#include "support/expect_error.h"

namespace dptrain::train {
namespace {

SplitSetting read(const std::string& text) {
  SplitSetting split;
  const ConfigSession session(parse_config(text + "\n", "a.yaml"),
                              [&](ConfigReader& config) { split = read_split(config, 2); });
  return split;
}

TEST(SplitSetting, IsEvenMeasuredOrByWeights) {
  for (const char* text : {"{}", "split: even"}) {
    EXPECT_FALSE(read(text).weights.has_value());
    EXPECT_FALSE(read(text).measured);
  }
  EXPECT_TRUE(read("split: auto").measured);
  EXPECT_EQ(read("split: [0.7, 0.3]").weights->range(0, 10), (std::pair<int64_t, int64_t>{0, 7}));
  EXPECT_EQ(read("split: [1, 0]").weights->range(1, 10), (std::pair<int64_t, int64_t>{10, 10}));
}

TEST(SplitSetting, RefusesOtherWeights) {
  const auto refused = [](const char* text, std::initializer_list<std::string_view> words) {
    testing::expect_error(ExitCode::config, words, [&] { read(text); });
  };
  refused("split: [1, 1, 1]", {"a.yaml:1", "split", "2 weights", "got 3"});
  refused("split: 0.5", {"split", "2 weights", "got 1"});
  refused("split: [0, 0]", {"split", "a weight over 0"});
  refused("split: [-1, 2]", {"split", "-1"});
  refused("split: fair", {"split", "fair"});
}

TEST(SplitSetting, SpeedsBecomeHundredthsOfAnEvenShare) {
  EXPECT_EQ(split_of_speeds({300, 100}).weights(), (std::vector<int64_t>{150, 50}));
  EXPECT_EQ(split_of_speeds({1, 1, 1}).weights(), (std::vector<int64_t>{100, 100, 100}));
  EXPECT_EQ(split_of_speeds({999, 1}).weights(), (std::vector<int64_t>{200, 1})) << "every device has some";
}

TEST(SplitSetting, SpeedsOfManyDevicesTellThemApart) {
  std::vector<double> speeds(256, 1000);
  speeds[7] = 250;
  const std::vector<int64_t> weights = split_of_speeds(speeds).weights();
  EXPECT_EQ(weights[0], 100);
  EXPECT_EQ(weights[7], 25);
}

}  // namespace
}  // namespace dptrain::train
