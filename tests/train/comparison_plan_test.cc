#include "train/comparison_plan.h"

#include <gtest/gtest.h>

#include "config/config_document.h"
#include "support/expect_error.h"

namespace dptrain::train {
namespace {

using testing::expect_error;

ConfigNode config(const std::vector<std::string>& overrides = {}) {
  ConfigNode root = parse_config(
      "model: lenet\n"
      "dataset: {name: synthetic, samples: 40, test_samples: 70, shape: [1, 16, 16]}\n"
      "devices: [cpu:0, cpu:1]\n"
      "threads: [1, 3]\n"
      "strategy: ddp\n"
      "batch_size: 16\n"
      "learning_rate: 0.05\n"
      "epochs: 2\n",
      "test.yaml");
  for (const auto& assignment : overrides) override_config(root, assignment);
  return root;
}

ComparisonPlan plan_of(const char* strategies, int64_t repetitions = 1,
                       const std::vector<std::string>& overrides = {}) {
  return plan_comparison(configs_by_strategy(config(overrides), strategies), "out", repetitions);
}

TEST(ComparisonPlan, NamesRunsByStrategyOrAsTheyAreCalled) {
  const ComparisonPlan plan = plan_of("single,{name: data_parallel},{name: ddp, overlap: false, as: plain}");
  ASSERT_EQ(plan.runs.size(), 3u);
  const std::vector<std::string> names = {"single", "data_parallel", "plain"};
  const std::vector<std::string> strategies = {"single", "data_parallel", "ddp"};
  for (size_t i = 0; i < names.size(); ++i) {
    const PlannedTraining& training = plan.runs[i].trainings.at(0);
    EXPECT_EQ(plan.runs[i].name, names[i]);
    EXPECT_EQ(training.experiment.name, names[i]);
    EXPECT_EQ(training.experiment.strategy.name, strategies[i]);
    EXPECT_EQ(training.directory, std::filesystem::path("out") / names[i]);
  }
  EXPECT_NE(plan.runs[2].trainings[0].config.find("overlap: false"), std::string::npos);
  EXPECT_TRUE(plan.differences.empty()) << "strategy and devices are what is compared";
}

TEST(ComparisonPlan, SingleTakesTheFirstDeviceWithAllThreadsAndTheWholeBatch) {
  for (const std::vector<std::string>& batch :
       {std::vector<std::string>{}, std::vector<std::string>{"batch_size=", "per_device_batch_size=8"}}) {
    const ComparisonPlan plan = plan_of("single,ddp", 1, batch);
    const Experiment& single = plan.runs[0].trainings[0].experiment;
    ASSERT_EQ(single.devices.size(), 1u);
    EXPECT_EQ(single.devices[0].name(), "cpu:0");
    EXPECT_EQ(single.threads, std::vector<int>{4});
    EXPECT_EQ(single.batch_size, 16);
    EXPECT_EQ(plan.runs[1].trainings[0].experiment.devices.size(), 2u);
    EXPECT_EQ(plan.runs[1].trainings[0].experiment.batch_size, 16);
    EXPECT_TRUE(plan.differences.empty());
  }
}

TEST(ComparisonPlan, SingleSplitsNothing) {
  const ComparisonPlan plan = plan_of("single,ddp", 1, {"split=[0.7, 0.3]"});
  const Experiment& single = plan.runs[0].trainings[0].experiment;
  EXPECT_EQ(single.devices.size(), 1u);
  EXPECT_EQ(single.batch_size, 16);
  EXPECT_FALSE(single.split.weights);
  ASSERT_TRUE(plan.runs[1].trainings[0].experiment.split.weights) << "ddp keeps it";
  EXPECT_EQ(plan.runs[1].trainings[0].experiment.split.weights->parts(), 2);
}

TEST(ComparisonPlan, SingleHasNoLinks) {
  const ComparisonPlan plan = plan_of("single,ddp", 1, {"links={pairs: {'cpu:0-cpu:1': {gbps: 1}}}"});
  EXPECT_FALSE(plan.runs[0].trainings[0].experiment.links);
  ASSERT_TRUE(plan.runs[1].trainings[0].experiment.links) << "ddp keeps them";
  EXPECT_EQ(plan.runs[1].trainings[0].experiment.links->pairs.size(), 1u);
}

TEST(ComparisonPlan, RepetitionsHaveSeedsThatFollowEachOther) {
  const ComparisonPlan plan = plan_of("single,ddp", 3, {"seed=7"});
  for (const PlannedRun& run : plan.runs) {
    ASSERT_EQ(run.trainings.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(run.trainings[i].experiment.seed, 7 + i);
      EXPECT_EQ(run.trainings[i].experiment.initialization.seed, 7 + i);
      EXPECT_EQ(run.trainings[i].directory,
                std::filesystem::path("out") / run.name / ("seed-" + std::to_string(7 + i)));
    }
  }
}

TEST(ComparisonPlan, SaysWhatConfigurationsDifferIn) {
  const ComparisonPlan plan = plan_comparison({{.name = "a", .config = config()},
                                               {.name = "b", .config = config({"seed=1", "dataset.samples=30"})},
                                               {.name = "c", .config = config({"strategy=single", "batch_size=32"})}},
                                              "out", 1);
  ASSERT_EQ(plan.differences.size(), 3u);
  EXPECT_EQ(plan.differences[0].key, "seed");
  EXPECT_EQ(plan.differences[0].values, (std::vector<std::string>{"0", "1", "0"}));
  EXPECT_EQ(plan.differences[1].key, "dataset.samples");
  EXPECT_EQ(plan.differences[1].values, (std::vector<std::string>{"40", "30", "40"}));
  EXPECT_EQ(plan.differences[2].key, "batch_size");
  EXPECT_EQ(plan.differences[2].values, (std::vector<std::string>{"16", "16", "32"}));
}

TEST(ComparisonPlan, RefusesWhatItCannotTellApartOrRead) {
  expect_error(ExitCode::config, {"each run needs a name of its own", "'ddp' twice", "as: other"},
               [] { plan_of("ddp,{name: ddp, overlap: false}"); });
  expect_error(ExitCode::config, {"'a' twice; change name: in one of the configurations"}, [] {
    plan_comparison({{.name = "a", .config = config()}, {.name = "a", .config = config()}}, "out", 1);
  });
  expect_error(ExitCode::config, {"--strategies", "expected strategies as names or maps", "[ddp]"},
               [] { plan_of("single,[ddp]"); });
  expect_error(ExitCode::config, {"--strategies", "did you mean 'ddp'?"}, [] { plan_of("single,dpd"); });
  expect_error(ExitCode::config, {"--strategies", "overlpa", "did you mean 'overlap'?"},
               [] { plan_of("single,{name: ddp, overlpa: false}"); });
  expect_error(ExitCode::config, {"--strategies: name", "no slash", "'a/b'"},
               [] { plan_of("single,{name: ddp, as: a/b}"); });
  expect_error(ExitCode::config, {"--strategies: as: expected the name of a run, got", "[1]"},
               [] { plan_of("single,{name: ddp, as: [1]}"); });
  for (const char* name : {"compare.json", "compare.md"})
    expect_error(ExitCode::config, {name, "a file of the comparison"},
                 [&] { plan_of((std::string("single,{name: ddp, as: ") + name + "}").c_str()); });
}

}  // namespace
}  // namespace dptrain::train
