// The ranking of candidates and its reasons, from given figures.
#include "train/strategy_choice.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "train/strategy_choice_json.h"

namespace dptrain::train {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

StrategyTrial tried(const std::string& strategy, double samples_per_s, int64_t peak_bytes = kMiB) {
  return {.strategy = strategy,
          .figures = TrialFigures{.seconds_per_step = 64 / samples_per_s,
                                  .samples_per_s = samples_per_s,
                                  .exposed_comm_s = 0.001,
                                  .bytes_per_step = 1234,
                                  .peak_bytes = peak_bytes}};
}

StrategyTrial failed(const std::string& strategy, const std::string& reason) {
  return {.strategy = strategy, .verdict = TrialVerdict::failed, .reason = reason};
}

TEST(StrategyChoice, TheFastestWinsAndOthersSayByHowMuchTheyLost) {
  std::vector<StrategyTrial> trials = {tried("{name: ddp}", 500), tried("{name: kvstore}", 1000),
                                       tried("{name: data_parallel}", 704)};
  EXPECT_EQ(choose(trials), 1u);
  EXPECT_EQ(trials[1].verdict, TrialVerdict::chosen);
  EXPECT_EQ(trials[1].reason, "the fastest");
  EXPECT_EQ(trials[0].verdict, TrialVerdict::slower);
  EXPECT_EQ(trials[0].reason, "2.00x slower than {name: kvstore}");
  EXPECT_EQ(trials[2].reason, "1.42x slower than {name: kvstore}");
}

TEST(StrategyChoice, WithinNoiseTheOneThatHoldsLessWins) {
  std::vector<StrategyTrial> trials = {tried("a", 1000, 20 * kMiB), tried("b", 980, 8 * kMiB),
                                       tried("c", 990, 8 * kMiB + 512), tried("d", 960, kMiB)};
  EXPECT_EQ(choose(trials), 1u);
  EXPECT_EQ(trials[1].reason, "within noise of the fastest, a, with 12.0 MiB less memory on its fullest device");
  EXPECT_EQ(trials[0].verdict, TrialVerdict::within_noise);
  EXPECT_EQ(trials[0].reason, "within noise of b, with 12.0 MiB more memory on its fullest device");
  EXPECT_EQ(trials[2].reason, "within noise of b, with 512 bytes more memory on its fullest device");
  EXPECT_EQ(trials[3].verdict, TrialVerdict::slower) << "over 3 % slower, though it holds least";
  EXPECT_EQ(trials[3].reason, "1.04x slower than a");
}

TEST(StrategyChoice, OfEqualsTheFirstWins) {
  std::vector<StrategyTrial> trials = {tried("a", 990), tried("b", 1000), tried("c", 1000)};
  EXPECT_EQ(choose(trials), 0u);
  EXPECT_EQ(trials[0].reason, "within noise of the fastest, b, and listed before it");
  EXPECT_EQ(trials[1].reason, "within noise of a, which is listed before it");
  EXPECT_EQ(trials[2].reason, "within noise of a, which is listed before it");
}

TEST(StrategyChoice, WhatHasNoFiguresKeepsItsReason) {
  std::vector<StrategyTrial> trials = {
      failed("a", "out of memory"), tried("b", 10), {.strategy = "c", .reason = "not tried: why"}};
  EXPECT_EQ(choose(trials), 1u);
  EXPECT_EQ(trials[0].verdict, TrialVerdict::failed);
  EXPECT_EQ(trials[0].reason, "out of memory");
  EXPECT_EQ(trials[2].verdict, TrialVerdict::not_tried);
  EXPECT_EQ(trials[2].reason, "not tried: why");
}

TEST(StrategyChoice, AMeasuredSplitIsNamed) {
  std::vector<StrategyTrial> trials = {tried("{name: ddp}", 100), tried("{name: ddp}", 150)};
  trials[1].split = "auto";
  EXPECT_EQ(choose(trials), 1u);
  EXPECT_EQ(trials[0].reason, "1.50x slower than {name: ddp} with split: auto");
}

TEST(StrategyChoice, ThoseWithinATenthAreWorthASecondLook) {
  const std::vector<StrategyTrial> trials = {tried("a", 910), tried("b", 1000), failed("c", "why"), tried("d", 900),
                                             tried("e", 995)};
  EXPECT_EQ(contenders(trials), (std::vector<size_t>{0, 1, 4}));
}

StrategyChoice some_choice() {
  StrategyChoice choice{.strategy = "{name: ddp, bucket_mb: 2.5, overlap: true}", .split = "auto", .trials = {}};
  choice.trials = {tried("{name: ddp, bucket_mb: 2.5, overlap: true}", 1.0 / 3, 7 * kMiB),
                   failed("{name: model_parallel, stages: [conv1, fc2]}", "a 'reason'"),
                   {.strategy = "{name: hybrid}", .split = "[1, 3]", .reason = "not tried: why"}};
  choice.trials[0].split = "auto";
  choose(choice.trials);
  return choice;
}

TEST(StrategyChoice, IsReadAsItWasWritten) {
  const StrategyChoice written = some_choice();
  const StrategyChoice read = parse_choice(choice_json(written), "manifest.json");
  EXPECT_EQ(read.strategy, written.strategy);
  EXPECT_EQ(read.split, "auto");
  ASSERT_EQ(read.trials.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read.trials[i].strategy, written.trials[i].strategy);
    EXPECT_EQ(read.trials[i].split, written.trials[i].split);
    EXPECT_EQ(read.trials[i].verdict, written.trials[i].verdict);
    EXPECT_EQ(read.trials[i].reason, written.trials[i].reason);
    EXPECT_EQ(read.trials[i].figures.has_value(), i == 0);
  }
  EXPECT_EQ(read.trials[0].figures->samples_per_s, 1.0 / 3) << "to the last bit";
  EXPECT_EQ(read.trials[0].figures->peak_bytes, 7 * kMiB);
}

TEST(StrategyChoice, AnythingElseIsRefusedByName) {
  const std::string whole = choice_json(some_choice());
  for (const auto& [part, other] : {std::pair<std::string, std::string>{"\"chosen\":{", "\"chose\":{"},
                                    {"\"verdict\":\"failed\"", "\"verdict\":\"lost\""},
                                    {"\"bytes_per_step\":1234", "\"bytes_per_step\":\"many\""}}) {
    std::string damaged = whole;
    ASSERT_NE(damaged.find(part), std::string::npos) << whole;
    damaged.replace(damaged.find(part), part.size(), other);
    testing::expect_error(ExitCode::bad_data, {"manifest.json: strategy_trials", "damaged"},
                          [&] { parse_choice(damaged, "manifest.json: strategy_trials"); });
  }
}

}  // namespace
}  // namespace dptrain::train
