// `--fault`: rehearsed failures end as real ones do, within their deadlines, and the run can be resumed.
#include <fmt/format.h>
#include <signal.h>

#include "base/clock.h"
#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;

class FaultFlagTest : public testing::CommandTest {
 protected:
  /// A run on two CPU workers, with five steps per epoch.
  static Arguments with_faults(const std::string& out, const Arguments& faults, const Arguments& overrides = {}) {
    Arguments settings = {"epochs=2"};
    settings.insert(settings.end(), overrides.begin(), overrides.end());
    Arguments arguments = training(out, settings);
    arguments.emplace_back("--quiet");
    for (const std::string& fault : faults) arguments.insert(arguments.end(), {"--fault", fault});
    return arguments;
  }
  std::string hash_of(const std::string& out) const { return json_of(out + "/summary.json")["weights_hash"]; }
};

TEST_F(FaultFlagTest, AKilledProcessGoesOnFromItsCheckpoint) {
  ASSERT_EQ(run(with_faults("whole", {})).exit, 0);
  const Finished killed = run(with_faults("run", {"kill:rank=1,step=8"}));
  EXPECT_EQ(killed.exit, 128 + SIGKILL) << killed.err;
  EXPECT_NE(killed.err.find("--fault rehearses a fault: rank 1 (cpu:1) is killed before step 8"), std::string::npos)
      << killed.err;
  EXPECT_FALSE(exists("run/summary.json"));
  Arguments resumed = with_faults("run", {});
  resumed.emplace_back("--resume");
  ASSERT_EQ(run(resumed).exit, 0);
  EXPECT_EQ(hash_of("run"), hash_of("whole"));
  EXPECT_EQ(json_of("run/summary.json")["faults"], nlohmann::json::array());
}

/// The rank's thread never ends, and is abandoned.
TEST_F(FaultFlagTest, AHungRankIsWaitedForNoLongerThanTimeoutSays) {
  for (const char* way : {"ddp", "data_parallel", "kvstore"}) {
    SCOPED_TRACE(way);
    const std::string out = fmt::format("run-{}", way);
    const auto begun = Clock::now();
    const Finished hung =
        run(with_faults(out, {"hang:rank=1,step=8"}, {fmt::format("strategy={}", way), "timeout_s=2"}));
    expect_failed(hung, 75, {"rank 0 (cpu:0), step 8: ", "waited 2 s in ", "for rank 1"});
    EXPECT_LT(seconds_since(begun), 30);
    const auto fault = json_of(out + "/fault.json");
    EXPECT_EQ(violations("fault.schema.json", fault), std::vector<std::string>());
    EXPECT_EQ(fault["exit"], 75);
    EXPECT_EQ(fault["last_checkpoint"]["step"], 5);
    // A single process also records where its threads were.
    ASSERT_EQ(fault["stacks"], "fault.stacks.txt");
    EXPECT_NE(text(out + "/fault.stacks.txt").find("thread"), std::string::npos);
  }
}

TEST_F(FaultFlagTest, WantOfMemoryIsADevicesOwn) {
  expect_failed(run(with_faults("run", {"memory:rank=1,step=8"})), 71, {"rank 1 (cpu:1)"});
}

TEST_F(FaultFlagTest, AProcessThatStandsStillGoesOn) {
  ASSERT_EQ(run(with_faults("whole", {})).exit, 0);
  ASSERT_EQ(run(with_faults("run", {"stop:rank=0,step=3,seconds=2"})).exit, 0);
  EXPECT_EQ(hash_of("run"), hash_of("whole"));
  EXPECT_GE(json_lines("run/metrics.jsonl")[0]["train"]["seconds"].get<double>(), 2);
}

TEST_F(FaultFlagTest, OneThatComesTooLateIsToldOf) {
  const Finished finished = run(with_faults("run", {"kill:rank=1,step=11"}));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.err.find("is killed before step 11; but the run has only 10 steps\n"), std::string::npos)
      << finished.err;
}

TEST_F(FaultFlagTest, OneThatAResumedTrainingIsPastIsToldOf) {
  ASSERT_EQ(run(with_faults("run", {})).exit, 0);
  Arguments resumed = with_faults("run", {"kill:rank=1,step=10", "slow:ms=1,step=4,steps=7"}, {"epochs=3"});
  resumed.emplace_back("--resume");
  const Finished finished = run(resumed);
  EXPECT_EQ(finished.exit, 0) << finished.err;
  for (const char* words : {"is killed before step 10; but the run resumes after step 10\n",
                            "in steps 4 to 10; but the run resumes after step 10\n"})
    EXPECT_NE(finished.err.find(words), std::string::npos) << finished.err;
}

TEST_F(FaultFlagTest, ASlowRankIsNamedAndChangesNoBit) {
  const Arguments long_enough = {"batch_size=16", "epochs=1", "eval_every=0"};
  ASSERT_EQ(run(with_faults("whole", {}, long_enough)).exit, 0);
  ASSERT_EQ(run(with_faults("run", {"slow:rank=1,ms=30"}, long_enough)).exit, 0);
  EXPECT_EQ(hash_of("run"), hash_of("whole"));
  const auto summary = json_of("run/summary.json");
  EXPECT_EQ(violations("summary.schema.json", summary), std::vector<std::string>());
  EXPECT_EQ(summary["faults"], nlohmann::json({"slow:rank=1,step=1,ms=30"}));
  EXPECT_EQ(summary["final"]["straggler"]["rank"], 1) << summary["final"];
}

TEST_F(FaultFlagTest, WeightsThatGoWrongAreFound) {
  expect_failed(run(with_faults("flip", {"flip:rank=1,step=7"})), 79,
                {"epoch 2: expected ", " to be bit-identical on all devices, got different bits on rank 1 (cpu:1)"});
  expect_failed(run(with_faults("nan", {"nan:rank=1,step=7"})), 79,
                {"step 8, epoch 2: training diverged: the loss of rank 1 (cpu:1) is no longer finite"});
}

/// Ranks of a store receive all weights anew in each step, and ranks of data_parallel receive rank 0's.
TEST_F(FaultFlagTest, AWrongWeightThatIsOverwrittenShowsWhereItIsComparedBefore) {
  ASSERT_EQ(run(with_faults("whole", {}, {"strategy=kvstore"})).exit, 0);
  expect_failed(run(with_faults("compared", {"flip:rank=1,step=10"}, {"strategy=kvstore"})), 79,
                {"epoch 2: expected ", "got different bits on rank 1 (cpu:1)"});
  ASSERT_EQ(run(with_faults("used", {"flip:rank=1,step=7"}, {"strategy=kvstore"})).exit, 0);
  EXPECT_NE(hash_of("used"), hash_of("whole"));
  for (const char* kind : {"flip", "nan"}) {
    const std::string out = fmt::format("{}-unused", kind);
    ASSERT_EQ(run(with_faults(out, {fmt::format("{}:rank=1,step=7", kind)}, {"strategy=data_parallel"})).exit, 0);
    EXPECT_EQ(hash_of(out), hash_of("whole"));
  }
}

TEST_F(FaultFlagTest, WhatCannotHappenIsRefused) {
  expect_refused(with_faults("run", {"kil:step=8"}), 64, {"did you mean 'kill'?"});
  expect_refused(with_faults("run", {"kill:rank=2,step=8"}), 64, {"expected a rank from 0 to 1, got 2"});
  expect_failed(run(with_faults("run", {"flip:rank=1,step=8,parameter=conv1.wieght"})), 64,
                {"expected a parameter that rank 1 trains, got 'conv1.wieght'; did you mean 'conv1.weight'?"});
}

TEST_F(FaultFlagTest, ComparedRunsShowWhatASlowRankCosts) {
  const Arguments compare = {"compare",      "--config", "digits.yaml", "--set",        "batch_size=16", "--set",
                             "eval_every=0", "--out",    "compared",    "--strategies", "single,ddp",    "--json"};
  const auto lost_of = [&](const Arguments& more) {
    Arguments arguments = compare;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    const auto document = json_of("compared/compare.json");
    EXPECT_EQ(violations("compare.schema.json", document), std::vector<std::string>());
    const auto& ddp = document["runs"][1];
    double sum = 0;
    for (const auto& part : ddp["lost"]) sum += part.get<double>();
    EXPECT_NEAR(sum, ddp["seconds_per_epoch"].get<double>(), 1e-9 * sum);
    return ddp["lost"];
  };
  const auto usual = lost_of({});
  const auto slow = lost_of({"--overwrite", "--fault", "slow:rank=1,ms=50"});
  const double steps = 320.0 / 16;
  EXPECT_GT(slow["straggler_s"].get<double>() - usual["straggler_s"].get<double>(), 0.8 * 0.05 * steps)
      << slow << usual;
  expect_refused({"compare", "--config", "digits.yaml", "--devices", "cpu:0-1", "--strategies", "single,ddp", "--out",
                  "other", "--fault", "kill:rank=1,step=5"},
                 64, {"expected slow, which compare can measure, got 'kill:rank=1,step=5'"});
}

}  // namespace
}  // namespace dptrain
