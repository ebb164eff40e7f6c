#include "train/comparison_assertion.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "train/compared_runs.h"

namespace dptrain::train {
namespace {

using testing::expect_error;

/// `single` takes 2 s, `ddp` on two devices 1.25 s, and a run whose name contains operators 4 s.
const std::vector<RunFigures> kRuns = {
    figures_of({.run = "single", .devices = 1, .seconds = {2}, .accuracies = {0.9}, .target = 0.445}),
    figures_of({.run = "ddp",
                .devices = 2,
                .seconds = {1.25},
                .accuracies = {0.91},
                .exposed_comm_s = 0.25,
                .memory_imbalance = 1.05,
                .target = 0.445}),
    figures_of({.run = "a(b)<=1",
                .devices = 2,
                .seconds = {4},
                .accuracies = {0.88},
                .peak_bytes = 3'000'000,
                .target = 0.445})};
const std::vector<AssertedRun> kNames = {{.name = "single", .has_target = true},
                                         {.name = "ddp", .has_target = true},
                                         {.name = "a(b)<=1", .has_target = true}};

AssertionOutcome outcome_of(const char* expression) { return ComparisonAssertion(expression, kNames).check(kRuns); }

struct Case {
  const char* expression;
  bool holds;
  const char* says;
};

class ComparisonAssertionTest : public ::testing::TestWithParam<Case> {};

TEST_P(ComparisonAssertionTest, SaysTheValue) {
  const AssertionOutcome outcome = outcome_of(GetParam().expression);
  EXPECT_EQ(outcome.holds, GetParam().holds) << outcome.sentence;
  EXPECT_EQ(outcome.sentence, std::string(GetParam().expression) + GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(
    Expressions, ComparisonAssertionTest,
    ::testing::Values(Case{"speedup(ddp)>=1.5", true, " holds: speedup(ddp) is 1.6"},
                      Case{"speedup(ddp) >= 1.7", false, " failed: speedup(ddp) is 1.6"},
                      Case{" speedup (ddp) > 1.6", false, " failed: speedup(ddp) is 1.6"},
                      Case{"efficiency(ddp)==0.8", true, " holds: efficiency(ddp) is 0.8"},
                      Case{"samples_per_s(single)<500", false, " failed: samples_per_s(single) is 500"},
                      Case{"samples_per_s(single)<=500", true, " holds: samples_per_s(single) is 500"},
                      Case{"accuracy>=0.88", true,
                           " holds: accuracy(single) is 0.9, accuracy(ddp) is 0.91, accuracy(a(b)<=1) is 0.88"},
                      Case{"accuracy>0.89", false, " failed: accuracy(a(b)<=1) is 0.88"},
                      Case{"accuracy_gap<0.031", true, " holds: accuracy_gap is 0.03"},
                      Case{"accuracy_gap<=0.003", false, " failed: accuracy_gap is 0.03"},
                      Case{"peak_bytes<=2e6", false, " failed: peak_bytes(a(b)<=1) is 3e+06"},
                      Case{"memory_imbalance(ddp)!=1", true, " holds: memory_imbalance(ddp) is 1.05"},
                      Case{"exposed_comm_s(ddp)<.3", true, " holds: exposed_comm_s(ddp) is 0.25"},
                      Case{"speedup(a(b)<=1)<1", true, " holds: speedup(a(b)<=1) is 0.5"},
                      Case{"speedup>=1", false, " failed: speedup(a(b)<=1) is 0.5"},
                      Case{"efficiency>0.2", true, " holds: efficiency(ddp) is 0.8, efficiency(a(b)<=1) is 0.25"}));

/// A metric's name and its value for each run; the first run has no value if the metric is relative to it.
struct KnownMetric {
  const char* name;
  std::vector<std::string> values;
  bool needs_evaluation = false;
};
const std::vector<KnownMetric> kMetrics = {
    {"speedup", {"ddp) is 1.6", "a(b)<=1) is 0.5"}},
    {"efficiency", {"ddp) is 0.8", "a(b)<=1) is 0.25"}},
    {"samples_per_s", {"single) is 500", "ddp) is 800", "a(b)<=1) is 250"}},
    {"accuracy", {"single) is 0.9", "ddp) is 0.91", "a(b)<=1) is 0.88"}, true},
    {"seconds_to_target", {"single) is 2", "ddp) is 1.25", "a(b)<=1) is 8"}, true},
    {"peak_bytes", {"single) is 1e+06", "ddp) is 1e+06", "a(b)<=1) is 3e+06"}},
    {"memory_imbalance", {"single) is 1", "ddp) is 1.05", "a(b)<=1) is 1"}},
    {"exposed_comm_s", {"single) is 0", "ddp) is 0.25", "a(b)<=1) is 0"}},
    {"accuracy_gap", {"accuracy_gap is 0.03"}, true}};

TEST(ComparisonAssertionMetrics, AreThoseOfTheRunsThatTheyAreOf) {
  for (const KnownMetric& metric : kMetrics) {
    const std::string name = metric.name;
    std::string values;
    for (const auto& value : metric.values)
      values += (values.empty() ? "" : ", ") + (value.starts_with(name) ? "" : name + "(") + value;
    const std::string every = name + ">=0", none = name + "<0";
    EXPECT_EQ(outcome_of(every.c_str()).sentence, every + " holds: " + values);
    EXPECT_EQ(outcome_of(none.c_str()).sentence, none + " failed: " + values);
  }
}

TEST(ComparisonAssertionMetrics, AreAllNamedWhereOneIsUnknown) {
  expect_error(
      ExitCode::usage,
      {"choose one of: speedup, efficiency, samples_per_s, accuracy, accuracy_gap, seconds_to_target, peak_bytes, "
       "memory_imbalance, "
       "exposed_comm_s"},
      [] { ComparisonAssertion("x>=1", kNames); });
}

TEST(ComparisonAssertionMetrics, SharesHaveBoundsFrom0To1) {
  expect_error(ExitCode::usage,
               {"column 11", "accuracy is a share, expected a number from 0 to 1, got '95'", "0.95 for 95 %"},
               [] { ComparisonAssertion("accuracy>=95", kNames); });
  expect_error(ExitCode::usage, {"accuracy_gap is a share", "got '2'"},
               [] { ComparisonAssertion("accuracy_gap<=2", kNames); });
  EXPECT_NO_THROW(ComparisonAssertion("speedup>=95", kNames));
  EXPECT_NO_THROW(ComparisonAssertion("accuracy<=1", kNames));
}

TEST(ComparisonAssertionMetrics, NeedAnEvaluationWhereTheyAreOfIt) {
  const std::vector<AssertedRun> runs = {{.name = "single", .has_target = true},
                                         {.name = "ddp", .evaluated = false, .has_target = true}};
  for (const KnownMetric& metric : kMetrics) {
    const auto make = [&] { ComparisonAssertion(std::string(metric.name) + ">=0", runs); };
    if (metric.needs_evaluation)
      expect_error(ExitCode::usage, {"run 'ddp' has no test accuracy"}, make);
    else
      EXPECT_NO_THROW(make()) << metric.name;
  }
}

TEST(ComparisonAssertionMetrics, SecondsToATargetNeedOne) {
  expect_error(ExitCode::usage, {"seconds_to_target needs a target accuracy", "--target 0.95"},
               [] { ComparisonAssertion("seconds_to_target<=1", std::vector<AssertedRun>{{.name = "single"}}); });
}

TEST(ComparisonAssertionMetrics, ATargetThatWasNotReachedFails) {
  std::vector<RunFigures> runs = kRuns;
  for (RunFigures& run : runs) run.target = 0.905;
  const AssertionOutcome outcome = ComparisonAssertion("seconds_to_target>=0", kNames).check(runs);
  EXPECT_FALSE(outcome.holds);
  EXPECT_EQ(outcome.sentence,
            "seconds_to_target>=0 failed: seconds_to_target(single) is unknown, as not every training run has reached "
            "the target, seconds_to_target(a(b)<=1) is unknown, as not every training run has reached the target");
}

/// For a speed of 500 samples/s: whether the assertion holds with a bound below, at and above the speed.
TEST(ComparisonAssertionOperators, HoldBelowAtAndAboveTheBound) {
  struct Row {
    const char* text;
    bool below, at, above;
  };
  for (const Row& row : {Row{"<", false, false, true}, Row{"<=", false, true, true}, Row{">", true, false, false},
                         Row{">=", true, true, false}, Row{"==", false, true, false}, Row{"!=", true, false, true}}) {
    const auto holds = [&](const char* bound) {
      return outcome_of((std::string("samples_per_s(single)") + row.text + bound).c_str()).holds;
    };
    EXPECT_EQ(holds("499"), row.below) << row.text;
    EXPECT_EQ(holds("500"), row.at) << row.text;
    EXPECT_EQ(holds("501"), row.above) << row.text;
  }
}

TEST(ComparisonAssertionOperators, OthersAreRefused) {
  for (const char* other : {"=", "=<", "=>", "!", "~", "<>", "===", "><", "is", ""})
    expect_error(ExitCode::usage, {"--assert 'accuracy", "column "}, [&] {
      ComparisonAssertion(std::string("accuracy") + (*other == 'i' ? " " : "") + other + "1", kNames);
    });
}

TEST(ComparisonAssertionMistakes, AreToldByPlace) {
  const auto refused = [](const char* expression, std::initializer_list<std::string_view> words) {
    SCOPED_TRACE(expression);
    expect_error(ExitCode::usage, words, [&] { ComparisonAssertion(expression, kNames); });
  };
  refused("", {"--assert '': column 1: expected a metric, got nothing", "choose one of: speedup, efficiency"});
  refused("speedpu(ddp)>=1", {"column 1: expected a metric, got 'speedpu(ddp)>=1'", "did you mean 'speedup'?"});
  refused("speedup(ddp", {"column 9: expected the name of a run and ')', got 'ddp'", "runs are single, ddp, a(b)<=1"});
  refused("speedup(dpp)>=1", {"column 9: expected the name of a run", "'dpp)>=1'", "runs are single, ddp"});
  refused("speedup(ddp)=>1", {"column 13: expected one of < <= > >= == !=, got '=>1'"});
  refused("speedup(ddp)", {"column 13: expected one of < <= > >= == !=, got nothing"});
  refused("speedup(ddp)>=", {"column 15: expected a number, got nothing"});
  refused("speedup(ddp)>>1.5", {"column 14: expected a number, got '>1.5'", "write for instance"});
  refused("speedup(ddp)>=1.5x", {"column 15: expected a number, got '1.5x'"});
  refused("speedup(ddp)>=inf", {"column 15: expected a number, got 'inf'"});
  refused("accuracy_gap(ddp)<=0.01", {"column 13: accuracy_gap covers all runs together", "leave (ddp) out"});
}

TEST(ComparisonAssertionMistakes, AnAccuracyNeedsAnEvaluation) {
  const std::vector<AssertedRun> runs = {{.name = "single"}, {.name = "ddp", .evaluated = false}};
  for (const char* expression : {"accuracy>=0.9", "accuracy(ddp)>=0.9", "accuracy_gap<=0.1"})
    expect_error(ExitCode::usage, {expression, "run 'ddp' has no test accuracy", "eval_every=1"},
                 [&] { ComparisonAssertion(expression, runs); });
  EXPECT_NO_THROW(ComparisonAssertion("accuracy(single)>=0.9", runs));
  EXPECT_NO_THROW(ComparisonAssertion("speedup>=0.9", runs));
}

TEST(ComparisonAssertionOutcome, OfARunThatWasNeverEvaluatedFails) {
  const std::vector<RunFigures> runs = {kRuns[0], figures_of({.run = "ddp", .accuracies = {}})};
  const AssertionOutcome outcome =
      ComparisonAssertion("accuracy>=0", std::vector<AssertedRun>{{.name = "single"}, {.name = "ddp"}}).check(runs);
  EXPECT_FALSE(outcome.holds);
  EXPECT_NE(outcome.sentence.find("accuracy(ddp) is unknown"), std::string::npos) << outcome.sentence;
}

TEST(ComparisonAssertionOutcome, IsNotRoundedToTheOtherSide) {
  const std::vector<RunFigures> runs = {kRuns[0], figures_of({.run = "ddp", .accuracies = {0.90000001}})};
  const AssertionOutcome outcome =
      ComparisonAssertion("accuracy(ddp)<=0.9", std::vector<AssertedRun>{{.name = "single"}, {.name = "ddp"}})
          .check(runs);
  EXPECT_FALSE(outcome.holds);
  EXPECT_NE(outcome.sentence.find("is 0.90000001"), std::string::npos) << outcome.sentence;
}

}  // namespace
}  // namespace dptrain::train
