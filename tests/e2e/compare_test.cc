// `dptrain compare`: runs one after the other, one table, and assertions that set the exit code.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "e2e/command_fixture.h"
#include "support/json_schema.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;
using testing::lines_of;
using testing::Process;

class CompareTest : public testing::CommandTest {
 protected:
  static Arguments strategies(const std::string& list, const Arguments& more = {}) {
    Arguments arguments = {"compare", "--config", "digits.yaml", "--strategies", list,
                           "--out",   "compared", "--progress",  "none"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  nlohmann::json compared(const Finished& finished) const {
    EXPECT_EQ(finished.exit, 0) << finished.err;
    const auto document = json_of("compared/compare.json");
    EXPECT_EQ(violations("compare.schema.json", document), std::vector<std::string>());
    return document;
  }
  /// Expects a refusal before anything was trained: the directory of the comparison doesn't exist.
  void expect_nothing_begun(const Arguments& arguments, int code, const Arguments& words) const {
    expect_refused(arguments, code, words);
    EXPECT_FALSE(exists("compared"));
  }
};

/// The example of docs/strategy-details.md; this net has small outputs.
TEST_F(CompareTest, PyramidNetsMemoryIsAlikeOnAllDevicesOfDataParallel) {
  const Finished finished = run({"compare",
                                 "--config",
                                 "pyramidnet_small_1cpu",
                                 "--devices",
                                 "cpu:0-3",
                                 "--set",
                                 "threads=1",
                                 "--set",
                                 "epochs=",
                                 "--set",
                                 "steps=2",
                                 "--set",
                                 "eval_every=0",
                                 "--set",
                                 "batch_size=128",
                                 "--out",
                                 "compared",
                                 "--strategies",
                                 "data_parallel, {name: data_parallel, criterion: parallel, as: parallel}",
                                 "--assert",
                                 "memory_imbalance<=1.1"});
  const auto document = compared(finished);
  for (const auto& compared_run : document["runs"]) {
    const std::vector<int64_t> peaks = compared_run["device_peak_bytes"];
    ASSERT_EQ(peaks.size(), 4u);
    EXPECT_EQ(std::ranges::max(peaks), compared_run["peak_bytes"]);
    EXPECT_NE(finished.out.find(fmt::format("{} {:.1f}, ", std::string(compared_run["run"]), peaks[0] / 1e6)),
              std::string::npos)
        << finished.out;
  }
}

TEST_F(CompareTest, RunsAreNoConfigurationsAndOneMisspelledStrategyIsNamed) {
  std::filesystem::create_directories(path("one"));
  folder_.write("one/config.yaml", text("digits.yaml"));
  expect_nothing_begun({"compare", "one", "digits.yaml", "--out", "compared"}, 64,
                       {"one", "expected one, got a run", "dptrain table"});
  expect_nothing_begun(strategies("dpp"), 78, {"strategy", "'dpp'", "did you mean 'ddp'?"});
  expect_nothing_begun(strategies("ddp"), 64, {"at least two runs, got 1"});
}

TEST_F(CompareTest, OneConfigurationUnderSeveralStrategies) {
  const Finished finished = run(strategies("single,ddp,data_parallel", {"--json"}));
  const auto document = compared(finished);
  EXPECT_EQ(finished.out, text("compared/compare.json")) << "one document and nothing else";
  const auto& runs = document["runs"];
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0]["run"], "single");
  EXPECT_EQ(runs[0]["devices"], nlohmann::json({"cpu:0"})) << "the first device of the list";
  EXPECT_EQ(runs[0]["speedup"], 1.0);
  EXPECT_EQ(runs[1]["weights_hash"], runs[2]["weights_hash"]) << "both add the same gradients in the same order";
  EXPECT_TRUE(document["differences"].empty()) << document["differences"];
  EXPECT_TRUE(document["finished"]);
  for (const auto& compared_run : runs) {
    const std::string name = compared_run["run"], out = "compared/" + name;
    EXPECT_EQ(compared_run["weights_hash"], hash(out)) << name;
    const auto metrics = last_metrics(out);
    EXPECT_EQ(metrics["run"], name);
    EXPECT_EQ(compared_run["seconds_per_epoch"], metrics["train"]["seconds"]) << "there is one epoch";
    EXPECT_EQ(compared_run["accuracy"], metrics["test"]["accuracy"]);
    EXPECT_EQ(compared_run["comm_bytes"], metrics["comm"]["bytes"]);
    EXPECT_EQ(violations("summary.schema.json", json_of(out + "/summary.json")), std::vector<std::string>());
  }
  // ddp makes the same sums in another order.
  const double loss = last_metrics("compared/single")["train"]["loss"];
  EXPECT_NEAR(last_metrics("compared/ddp")["train"]["loss"].get<double>(), loss, 1e-4 * loss);
  const auto single = json_of("compared/single/summary.json");
  EXPECT_EQ(single["environment"]["threads"], nlohmann::json({2})) << "all threads of the list";
  EXPECT_NE(text("compared/compare.md").find("| single | single | 1 cpu |"), std::string::npos);
}

TEST_F(CompareTest, ATableFitsEightyColumns) {
  const Finished finished = run(strategies("single,ddp,{name: ddp, overlap: false, as: plain}"));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  for (const auto& line : lines_of(finished.out)) EXPECT_LE(line.size(), 80u) << line;
  for (const char* words : {"single", "plain", "speed-up", "2 cpu", "compared: compare.md"})
    EXPECT_NE(finished.out.find(words), std::string::npos) << words << "\n" << finished.out;
  EXPECT_NE(text("compared/plain/config.yaml").find("overlap: false"), std::string::npos);
}

TEST_F(CompareTest, SeveralConfigurationsSayWhatTheyDifferIn) {
  folder_.write("other.yaml", text("digits.yaml") + "seed: 3\n");
  const Finished finished = run({"compare", "digits.yaml", "other.yaml", "--set", "epochs=2", "--quiet"});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(finished.out + finished.err, "");
  const auto document = json_of("runs/compare-digits-other/compare.json");
  EXPECT_EQ(document["differences"], (nlohmann::json{{"seed", {"0", "3"}}}));
  EXPECT_EQ(document["runs"][1]["run"], "other");
  EXPECT_EQ(document["runs"][0]["trainings"][0]["epochs"], 2);
}

TEST_F(CompareTest, WhatATrainingWarnsOfIsSaid) {
  const Finished finished =
      run(strategies("single,{name: kvstore, type: dist_async}", {"--set", "learning_rate=1e-30"}));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.err.find("warning: epoch 1: the training loss"), std::string::npos) << finished.err;
}

TEST_F(CompareTest, AnAssertionThatFailsEndsWithOneAndSaysTheValue) {
  const Finished finished = run(
      strategies("single,ddp", {"--assert", "accuracy(ddp)>1", "--assert", "speedup>0", "--assert", "accuracy_gap>1"}));
  EXPECT_EQ(finished.exit, 1) << finished.err;
  const auto document = json_of("compared/compare.json");
  EXPECT_NE(finished.last_error().find("--assert accuracy(ddp)>1 failed: accuracy(ddp) is 0."), std::string::npos)
      << finished.err;
  EXPECT_NE(finished.err.find("--assert accuracy_gap>1 failed: accuracy_gap is 0"), std::string::npos);
  EXPECT_NE(finished.out.find("speed-up"), std::string::npos) << "the table is printed all the same";
  EXPECT_EQ(document["assertions"][0]["holds"], false);
  EXPECT_EQ(document["assertions"][1]["holds"], true);
}

TEST_F(CompareTest, MistakesAreRefusedBeforeAnythingIsTrained) {
  const std::string two = "single,ddp";
  expect_nothing_begun(strategies(two, {"--assert", "speedup(dpp)>1"}), 64, {"'dpp)>1'", "runs are single, ddp"});
  expect_nothing_begun(strategies(two, {"--assert", "speedup>"}), 64, {"column 9: expected a number, got nothing"});
  expect_nothing_begun(strategies(two, {"--set", "eval_every=2", "--assert", "accuracy>0"}), 64, {"no test accuracy"});
  expect_nothing_begun(
      strategies(two, {"--set", "epochs=", "--set", "steps=10", "--set", "eval_every=3", "--assert", "accuracy>0"}), 64,
      {"no test accuracy"});
  expect_nothing_begun(strategies(two, {"--repeat", "0"}), 64, {"--repeat"});
  expect_nothing_begun(strategies("ddp"), 64, {"at least two runs, got 1"});
  expect_nothing_begun(strategies("ddp,ddp"), 78, {"'ddp' twice"});
  expect_nothing_begun(strategies("single,dpd"), 78, {"did you mean 'ddp'?"});
  expect_nothing_begun({"compare", "--config", "digits.yaml"}, 64, {"--strategies"});
  expect_nothing_begun({"compare", "digits.yaml", "digits.yaml", "--strategies", two}, 64, {"--config"});
  expect_nothing_begun({"compare"}, 64, {"expected several configurations"});
  expect_nothing_begun(strategies(two, {"--set", "dataset={name: synthetic, shape: [1, 8, 8]}"}), 78,
                       {"run single: ", "lenet"});
}

TEST_F(CompareTest, FinishedRunsAreKeptUnlessOverwritten) {
  EXPECT_EQ(run(strategies("single,ddp", {"--quiet"})).exit, 0);
  const std::string metrics = text("compared/single/metrics.jsonl");
  const Finished refused = run(strategies("data_parallel,ddp"));
  expect_failed(refused, 74, {"compared/ddp", "already has metrics; --overwrite replaces its files"});
  EXPECT_FALSE(exists("compared/data_parallel")) << "refused before the first of them was begun";
  const std::string report = text("compared/compare.json");
  expect_failed(run(strategies("data_parallel,kvstore")), 74,
                {"compared", "already has compare.json; --overwrite replaces it and its runs"});
  EXPECT_EQ(text("compared/compare.json"), report);
  EXPECT_FALSE(exists("compared/kvstore/metrics.jsonl"));
  EXPECT_EQ(run(strategies("single,ddp", {"--overwrite", "--quiet"})).exit, 0);
  EXPECT_NE(text("compared/single/metrics.jsonl"), metrics) << "other seconds, at least";
}

TEST_F(CompareTest, OverwriteLeavesTheWeightsThatItIsToBeginFrom) {
  EXPECT_EQ(run(strategies("single,ddp", {"--quiet"})).exit, 0);
  const std::string weights = hash("compared/single");
  for (const char* from : {"compared/single", "compared/ddp", "compared/ddp/checkpoints/step-000005"}) {
    const std::string init = fmt::format("init={{from: {}}}", from);
    expect_failed(run(strategies("single,kvstore", {"--overwrite", "--set", init})), 64,
                  {"run single: ", from, "outside the runs that --overwrite replaces", "choose another --out"});
    EXPECT_TRUE(exists("compared/ddp/checkpoints/step-000005"));
  }
  EXPECT_EQ(hash("compared/single"), weights);
}

TEST_F(CompareTest, WeightsToBeginFromMayBeDamagedButForOlderOnes) {
  train("before", {"epochs=2"});
  folder_.write("before/checkpoints/step-000010/model.safetensors", "damaged");
  const Finished finished = run(strategies("single,ddp", {"--quiet", "--set", "init={from: before}"}));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.err.find("step-000010"), std::string::npos) << finished.err;
  EXPECT_EQ(lines_of(finished.err).size(), 1u) << "told once: " << finished.err;
}

TEST_F(CompareTest, OverwriteRemovesTheRunsThatOnlyTheEarlierComparisonHad) {
  EXPECT_EQ(run(strategies("single,ddp,kvstore,data_parallel", {"--quiet"})).exit, 0);
  train("compared/mine");
  folder_.write("compared/kvstore/notes.txt", "mine");
  // One run isn't named by compare.json, and one has a name outside of the folder.
  auto document = json_of("compared/compare.json");
  document["runs"].push_back(
      {{"run", "../elsewhere"}, {"trainings", {{{"directory", "compared/../elsewhere"}, {"seed", 0}}}}});
  document["runs"].push_back({{"run", ".."}, {"trainings", {{{"directory", "compared/.."}, {"seed", 0}}}}});
  folder_.write("compared/compare.json", document.dump());
  train("elsewhere");

  EXPECT_EQ(run(strategies("single,data_parallel", {"--overwrite", "--quiet"})).exit, 0);
  EXPECT_FALSE(exists("compared/ddp"));
  EXPECT_EQ(text("compared/kvstore/notes.txt"), "mine");
  EXPECT_FALSE(exists("compared/kvstore/metrics.jsonl"));
  EXPECT_FALSE(exists("compared/kvstore/checkpoints"));
  for (const char* kept : {"compared/single", "compared/data_parallel", "compared/mine", "elsewhere"})
    EXPECT_TRUE(exists(std::string(kept) + "/metrics.jsonl")) << kept;
}

TEST_F(CompareTest, OverwriteKnowsRepeatedRunsFromSingleOnes) {
  EXPECT_EQ(run(strategies("single,ddp", {"--quiet"})).exit, 0);
  EXPECT_EQ(run(strategies("single,ddp", {"--overwrite", "--quiet", "--repeat", "2"})).exit, 0);
  EXPECT_FALSE(exists("compared/ddp/metrics.jsonl"));
  EXPECT_TRUE(exists("compared/ddp/seed-1/metrics.jsonl"));
  EXPECT_EQ(run(strategies("single,kvstore", {"--overwrite", "--quiet"})).exit, 0);
  EXPECT_FALSE(exists("compared/ddp")) << "with the folders of its seeds";
  EXPECT_FALSE(exists("compared/single/seed-0"));
  EXPECT_TRUE(exists("compared/single/metrics.jsonl"));
}

TEST_F(CompareTest, ACompareFileThatNoComparisonWroteCostsNothing) {
  EXPECT_EQ(run(strategies("single,ddp", {"--quiet"})).exit, 0);
  folder_.write("compared/compare.json", "{\"runs\": 3}");
  EXPECT_EQ(run(strategies("single,kvstore", {"--overwrite", "--quiet"})).exit, 0);
  EXPECT_TRUE(exists("compared/ddp/metrics.jsonl"));
}

TEST_F(CompareTest, ARunThatFailsEndsItWithItsCode) {
  std::string config = text("digits.yaml");
  config.replace(config.find("0.05"), 4, "1e30");
  folder_.write("diverging.yaml", config);
  const Finished diverged = run({"compare", "digits.yaml", "diverging.yaml", "--out", "compared"});
  expect_failed(diverged, 79, {"run diverging: ", "step ", "training diverged"});
  EXPECT_NE(diverged.out.find("digits"), std::string::npos) << "what was measured until then is said";
  const auto document = json_of("compared/compare.json");
  EXPECT_EQ(document["finished"], false);
  EXPECT_EQ(document["runs"].size(), 1u);
  const std::string unfinished = document["unfinished"][0];
  EXPECT_TRUE(unfinished.starts_with("diverging failed: step ")) << unfinished;
  EXPECT_NE(unfinished.find("training diverged"), std::string::npos) << unfinished;
  EXPECT_NE(text("compared/compare.md").find(unfinished), std::string::npos);

  const auto fault = json_of("compared/diverging/fault.json");
  EXPECT_EQ(testing::schema_violations("fault.schema.json", fault), std::vector<std::string>());
  EXPECT_EQ(fault["run"], "diverging");
  EXPECT_EQ(fault["exit"], 79);
  EXPECT_GT(fault["root"]["step"], 0);
  const std::string resume = fault["resume"];
  EXPECT_TRUE(resume.ends_with(" --config compared/diverging/config.yaml --out compared/diverging --resume")) << resume;
  EXPECT_FALSE(exists("compared/digits/fault.json"));
  const auto runs = nlohmann::json::parse(run({"table", "compared", "--json"}).out)["runs"];
  EXPECT_EQ(runs[0]["state"], "finished");
  EXPECT_EQ(runs[1]["state"], "failed");
}

TEST_F(CompareTest, OverwriteLeavesNothingThatIsSaidOfTheRunsItReplaces) {
  EXPECT_EQ(run(strategies("single,ddp", {"--quiet"})).exit, 0);
  expect_failed(run(strategies("single,ddp", {"--overwrite", "--set", "memory_limit=1000000"})), 71, {"run single: "});
  EXPECT_FALSE(exists("compared/compare.json")) << "the first run is gone";
  EXPECT_FALSE(exists("compared/compare.md"));
}

TEST_F(CompareTest, SigintInTheFirstEpochSaysThatNothingWasMeasured) {
  Process process(program(strategies("single,ddp", {"--set", "dataset={name: synthetic, samples: 1000000}"})));
  process.wait_until([&] { return exists("compared/single/config.yaml"); });
  process.signal(SIGINT);
  expect_failed(process.wait(), 130, {"stopped by SIGINT; nothing was measured"});
  EXPECT_FALSE(exists("compared/compare.json"));
}

TEST_F(CompareTest, SigintEndsItAfterTheStepInHandWithWhatWasMeasured) {
  std::string endless = text("digits.yaml");
  endless.replace(endless.find("epochs: 1"), 9, "epochs: 100000");
  folder_.write("endless.yaml", endless);
  Process process(program({"compare", "digits.yaml", "endless.yaml", "--out", "compared", "--progress", "none"}));
  process.wait_until([&] { return lines_of(text("compared/endless/metrics.jsonl")).size() >= 2; });
  process.signal(SIGINT);
  const Finished finished = process.wait();
  expect_failed(finished, 130, {"stopped by SIGINT", "the results so far are in compared"});
  EXPECT_NE(finished.out.find("endless"), std::string::npos);
  EXPECT_NE(finished.out.find("The comparison is not complete: endless was stopped in step "), std::string::npos)
      << finished.out;
  const auto document = json_of("compared/compare.json");
  EXPECT_EQ(document["finished"], false);
  EXPECT_EQ(document["runs"].size(), 2u);
  EXPECT_EQ(json_of("compared/endless/summary.json")["exit"], 130);
}

TEST_F(CompareTest, RepetitionsHaveMeanDeviationAndATest) {
  const auto document = compared(run(strategies("single,ddp", {"--repeat", "2", "--json"})));
  for (const auto& compared_run : document["runs"]) {
    ASSERT_EQ(compared_run["trainings"].size(), 2u);
    EXPECT_EQ(compared_run["trainings"][1]["seed"], 1);
    EXPECT_NE(compared_run["trainings"][0]["weights_hash"], compared_run["trainings"][1]["weights_hash"]);
    EXPECT_TRUE(exists("compared/" + compared_run["run"].get<std::string>() + "/seed-1/summary.json"));
    const auto& accuracy = compared_run["repeated"]["accuracy"];
    const double first = compared_run["trainings"][0]["accuracy"], second = compared_run["trainings"][1]["accuracy"];
    EXPECT_NEAR(accuracy["mean"].get<double>(), (first + second) / 2, 1e-12);
  }
  EXPECT_EQ(document["runs"][0]["repeated"]["seconds_difference"]["p_value"], 1.0) << "from itself";
}

TEST_F(CompareTest, DumpConfigShowsEachRunAndStops) {
  const Finished finished = run(strategies("single,ddp", {"--dump-config"}));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_FALSE(exists("compared"));
  for (const char* words : {"---  # single\n", "---  # ddp\n", "devices: [cpu:0] ", "devices: [cpu:0, cpu:1] "})
    EXPECT_NE(finished.out.find(words), std::string::npos) << words << "\n" << finished.out;
}

TEST_F(CompareTest, TellsTheSecondsToATarget) {
  const Finished finished =
      run(strategies("single,ddp", {"--target", "0.05", "--assert", "seconds_to_target<=600", "--set", "epochs=2"}));
  const auto document = compared(finished);
  EXPECT_EQ(document["target"], 0.05);
  for (const auto& run : document["runs"]) EXPECT_GT(run["seconds_to_target"].get<double>(), 0) << run["run"];
  EXPECT_NE(finished.out.find("s to 5 %"), std::string::npos) << finished.out;
  for (const char* wrong : {"-0.1", "93", "x", "nan"})
    expect_refused(strategies("single,ddp", {"--overwrite", "--target", wrong}), 64, {"--target"});
  expect_refused(strategies("single,ddp", {"--overwrite", "--target", "95.0"}), 64,
                 {"--target: expected a number from 0 to 1, got '95.0'"});
  expect_refused(strategies("single,ddp", {"--overwrite", "--assert", "seconds_to_target<=1"}), 64, {"--target 0.95"});
  const Finished never =
      run(strategies("single,ddp", {"--overwrite", "--target", "1", "--quiet", "--assert", "seconds_to_target<=600"}));
  EXPECT_EQ(never.exit, 1);
  EXPECT_NE(never.err.find("not every training run has reached the target"), std::string::npos) << never.err;
}

}  // namespace
}  // namespace dptrain
