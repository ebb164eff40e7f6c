// `strategy: auto`: trials choose a strategy, the summary says why, and training uses the chosen one.
#include <signal.h>

#include <algorithm>
#include <fstream>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using nlohmann::json;
using testing::Arguments;
using testing::Finished;
using testing::Process;

constexpr const char* kAuto = "strategy={name: auto, trial_steps: 1}";

class StrategyAutoTest : public testing::CommandTest {
 protected:
  /// `strategy_trials` of a run's summary; expects the summary to fit its schema.
  json trials(const std::string& out) const {
    const auto summary = json_of(out + "/summary.json");
    EXPECT_EQ(violations("summary.schema.json", summary), std::vector<std::string>());
    return summary["strategy_trials"];
  }
  /// The candidate of this strategy, as JSON; null if there is none.
  static json candidate(const json& trials, const std::string& strategy, const std::string& split = "even") {
    for (const json& one : trials["candidates"])
      if (one["strategy"] == json::parse(strategy) && one["split"] == split) return one;
    return nullptr;
  }
  static std::vector<json> chosen_ones(const json& trials) {
    std::vector<json> chosen;
    for (const json& one : trials["candidates"])
      if (one["verdict"] == "chosen") chosen.push_back(one);
    return chosen;
  }
  Finished resume(const Arguments& overrides) const {
    Arguments arguments = training("run", overrides);
    arguments.emplace_back("--resume");
    Finished finished = run(arguments);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    return finished;
  }
};

TEST_F(StrategyAutoTest, TrainsAsTheChosenOneAndSaysWhatTheOthersCost) {
  const Finished finished = train("run", {"strategy=auto"});
  EXPECT_NE(finished.out.find("strategy: auto has chosen {name: "), std::string::npos) << finished.out;
  const json found = trials("run");
  EXPECT_EQ(found["candidates"].size(), 10u) << found;
  for (const char* strategy :
       {R"({"name": "ddp"})", R"({"name": "ddp", "bucket_mb": 1})", R"({"name": "ddp", "overlap": false})",
        R"({"name": "ddp", "shard_optimizer": true})", R"({"name": "fsdp"})",
        R"({"name": "kvstore", "type": "device", "placement": "balanced"})",
        R"({"name": "data_parallel", "criterion": "parallel"})",
        R"({"name": "data_parallel", "criterion": "gathered"})", R"({"name": "model_parallel", "schedule": "1f1b"})",
        R"({"name": "model_parallel", "schedule": "zero_bubble"})"}) {
    const json one = candidate(found, strategy);
    ASSERT_FALSE(one.is_null()) << strategy;
    EXPECT_GT(one["samples_per_s"], 0) << strategy;
    EXPECT_GT(one["bytes_per_step"], 0) << strategy;
    EXPECT_GT(one["peak_bytes"], 0) << strategy;
    EXPECT_NE(one["reason"], "") << strategy;
  }
  const auto chosen = chosen_ones(found);
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0]["strategy"], found["chosen"]);
  EXPECT_EQ(last_metrics("run")["strategy"], found["chosen"]["name"]);
  EXPECT_EQ(json_of("run/summary.json")["strategy"], found["chosen"]["name"]);
  EXPECT_NE(text("run/config.yaml").find("auto"), std::string::npos) << text("run/config.yaml");
  train("written", {"strategy=" + found["chosen"].dump()});
  EXPECT_EQ(hash("run"), hash("written"));
  EXPECT_TRUE(trials("written").is_null());
}

/// Messages take so long here that their number decides: one per bucket, or two for each of LeNet's eight parameters.
TEST_F(StrategyAutoTest, WhatTakesTheFewestMessagesWinsOverSlowLinks) {
  train("run",
        {"strategy={name: auto, trial_steps: 2, candidates: [kvstore, ddp: {bucket_mb: 25, first_bucket_mb: 25}]}",
         "links={latency_us: 20000}"});
  const json found = trials("run");
  EXPECT_EQ(found["chosen"]["name"], "ddp") << found;
  const json& store = found["candidates"][0];
  EXPECT_EQ(store["verdict"], "slower") << store;
  EXPECT_LT(2 * store["samples_per_s"].get<double>(), found["candidates"][1]["samples_per_s"].get<double>());
}

TEST_F(StrategyAutoTest, WhatDoesNotFitTheMemoryLoses) {
  // 8.5 million weights take 68 MB with their gradients on each device, and less where the net is cut.
  train("run",
        {"model={layers: [flatten, linear: 2000, relu, linear: 2000, relu, linear: 2000, relu, linear: classes]}",
         "dataset={name: synthetic, samples: 64, test_samples: 8, shape: [1, 16, 16]}", "optimizer=sgd", "batch_size=8",
         "memory_limit=64000000", kAuto});
  const json found = trials("run");
  EXPECT_EQ(found["chosen"]["name"], "model_parallel") << found;
  const json ddp = candidate(found, R"({"name": "ddp"})");
  EXPECT_EQ(ddp["verdict"], "failed");
  EXPECT_NE(ddp["reason"].get<std::string>().find("limit of 64000000"), std::string::npos) << ddp;
  EXPECT_FALSE(ddp.contains("samples_per_s"));
}

TEST_F(StrategyAutoTest, WhereNothingFitsItEndsAsTheFirstCandidateDid) {
  expect_refused(training("run", {"memory_limit=1000", kAuto}), 71,
                 {"none of 10 candidates", "the first, {name: ddp}", "limit of 1000"});
}

TEST_F(StrategyAutoTest, AResumedTrainingKeepsTheChoice) {
  const Arguments listed = {"strategy={name: auto, trial_steps: 1, candidates: [ddp, kvstore: {type: local}]}"};
  train("run", listed);
  // The manifest is changed as if the other candidate had won. A new trial would report its measurements.
  const std::string manifest = "run/checkpoints/step-000005/manifest.json";
  auto document = json_of(manifest);
  document["strategy_trials"]["chosen"] = {{"name", "kvstore"}, {"type", "local"}};
  document["strategy_trials"]["candidates"][0]["reason"] = "because";
  document.erase("sha256");
  std::ofstream(path(manifest)) << document.dump();
  Arguments more = listed;
  more.emplace_back("epochs=2");
  resume(more);
  EXPECT_EQ(last_metrics("run")["strategy"], "kvstore");
  EXPECT_EQ(trials("run")["candidates"][0]["reason"], "because");

  // On other devices, and with checkpoints without recorded trials, new trials are made.
  more.back() = "epochs=3";
  more.insert(more.end(), {"devices=cpu:0-3", "batch_size=64"});
  resume(more);
  EXPECT_NE(trials("run")["candidates"][0]["reason"], "because");
  const std::string last = "run/checkpoints/step-000015/manifest.json";
  document = json_of(last);
  document.erase("strategy_trials");
  document.erase("sha256");
  std::ofstream(path(last)) << document.dump();
  more[1] = "epochs=4";
  resume(more);
  EXPECT_EQ(chosen_ones(trials("run")).size(), 1u);
}

TEST_F(StrategyAutoTest, ADamagedChoiceIsNamed) {
  train("run", {"strategy={name: auto, trial_steps: 1, candidates: [ddp]}"});
  const std::string manifest = "run/checkpoints/step-000005/manifest.json";
  auto document = json_of(manifest);
  document["strategy_trials"]["candidates"] = 7;
  std::ofstream(path(manifest)) << document.dump();
  expect_failed(run({"eval", "--config", "digits.yaml", "--checkpoint", "run/checkpoints/step-000005"}), 65,
                {"manifest.json: strategy_trials", "damaged"});
}

TEST_F(StrategyAutoTest, UnlikeDevicesAreTriedWithAMeasuredSplitUnlessOneIsWritten) {
  const Arguments listed = {"strategy={name: auto, trial_steps: 1, candidates: [ddp, model_parallel]}",
                            "threads=[1, 2]"};
  train("run", listed);
  const json found = trials("run");
  EXPECT_EQ(found["candidates"].size(), found["chosen"]["name"] == "ddp" ? 3u : 2u) << found;
  Arguments only_ddp = {"strategy={name: auto, trial_steps: 1, candidates: [ddp]}", "threads=[1, 2]"};
  train("ddp", only_ddp);
  EXPECT_FALSE(candidate(trials("ddp"), R"({"name": "ddp"})", "auto").is_null());
  only_ddp.emplace_back("split=even");
  train("even", only_ddp);
  EXPECT_TRUE(candidate(trials("even"), R"({"name": "ddp"})", "auto").is_null());
}

TEST_F(StrategyAutoTest, NeverChangesWhatIsTrained) {
  train("run", {"strategy={name: auto, trial_steps: 1, candidates: [ddp, ddp: {compress: bf16}, ddp: {overlap: "
                "next_forward}, model_parallel]}",
                "model={layers: [conv: {channels: 4, kernel: 3}, batch_norm, relu, flatten, linear: classes]}"});
  const json found = trials("run");
  EXPECT_EQ(found["chosen"], json({{"name", "ddp"}}));
  const json compressed = candidate(found, R"({"name": "ddp", "compress": "bf16"})");
  EXPECT_EQ(compressed["verdict"], "not_tried");
  EXPECT_EQ(compressed["reason"], "not tried: compressed gradients would change the result");
  const json later = candidate(found, R"({"name": "ddp", "overlap": "next_forward"})");
  EXPECT_EQ(later["reason"], "not tried: trials time single steps, but it updates the weights during the next step");
  const json pipeline = candidate(found, R"({"name": "model_parallel"})");
  EXPECT_EQ(pipeline["verdict"], "not_tried");
  EXPECT_EQ(pipeline["reason"], "not tried: its batch statistics would be those of micro-batches");
}

TEST_F(StrategyAutoTest, StrategiesThatDoNotFitTheConfigurationLoseByItsSentence) {
  train("run", {"strategy={name: auto, trial_steps: 1, candidates: [single, model_parallel, ddp]}", "shards=2"});
  const json found = trials("run");
  EXPECT_EQ(found["chosen"]["name"], "ddp");
  EXPECT_NE(candidate(found, R"({"name": "single"})")["reason"].get<std::string>().find("exactly one device"),
            std::string::npos);
  EXPECT_NE(
      candidate(found, R"({"name": "model_parallel"})")["reason"].get<std::string>().find("doesn't support shards"),
      std::string::npos);
}

TEST_F(StrategyAutoTest, OneDeviceHasNothingToTry) {
  train("run", {"devices=cpu:0", "strategy=auto"});
  const json found = trials("run");
  EXPECT_EQ(found["chosen"], json({{"name", "single"}}));
  ASSERT_EQ(found["candidates"].size(), 1u);
  EXPECT_FALSE(found["candidates"][0].contains("samples_per_s"));
  EXPECT_EQ(last_metrics("run")["strategy"], "single");
}

TEST_F(StrategyAutoTest, RefusesWrongValues) {
  const auto refused = [&](const std::string& strategy, const Arguments& words) {
    expect_refused(training("run", {"strategy=" + strategy}), 78, words);
  };
  refused("{name: auto, trial_steps: 0}", {"strategy.trial_steps", "got 0"});
  refused("{name: auto, trial_step: 3}", {"strategy.trial_step", "trial_steps"});
  refused("{name: auto, candidates: [dpp]}", {"strategy.candidates[0]", "'dpp'", "ddp"});
  refused("{name: auto, candidates: [auto]}", {"strategy.candidates[0]", "'auto'"});
  refused("{name: auto, candidates: [ddp: {bucket_mb: -1}]}", {"candidates[0].ddp.bucket_mb", "got -1"});
  refused("{name: auto, candidates: []}", {"strategy.candidates"});
}

TEST_F(StrategyAutoTest, ASignalEndsTheTrialsAndNothingIsWritten) {
  Process process(program(training("run", {"strategy={name: auto, trial_steps: 10000}"})));
  process.wait_until([&] { return exists("run"); });
  process.signal(SIGINT);
  expect_failed(process.wait(), 130, {"stopped by SIGINT", "trials of strategy: auto"});
  EXPECT_FALSE(exists("run/metrics.jsonl"));
  EXPECT_FALSE(exists("run/checkpoints"));
}

TEST_F(StrategyAutoTest, OtherCommandsTakeSuchAConfiguration) {
  train("run", {"strategy={name: auto, trial_steps: 1, candidates: [ddp]}"});
  const Finished evaluated =
      run({"eval", "--config", "digits.yaml", "--set", "strategy=auto", "--checkpoint", "run", "--json"});
  ASSERT_EQ(evaluated.exit, 0) << evaluated.err;
  EXPECT_EQ(json::parse(evaluated.out)["accuracy"], last_metrics("run")["test"]["accuracy"]);

  const Finished verified = run({"verify", "--config", "digits.yaml", "--set", "strategy=auto", "--json"});
  EXPECT_EQ(verified.exit, 0) << verified.err;

  const Finished compared = run({"compare", "--config", "digits.yaml", "--strategies",
                                 "single,{name: auto, trial_steps: 1, candidates: [kvstore], as: best}", "--out",
                                 "compared", "--progress", "none", "--json"});
  ASSERT_EQ(compared.exit, 0) << compared.err;
  EXPECT_EQ(json::parse(compared.out)["runs"][1]["strategy"], "kvstore");
  EXPECT_EQ(trials("compared/best")["chosen"]["name"], "kvstore");

  const Finished dumped = run({"--config", "digits.yaml", "--set", "strategy=auto", "--dump-config"});
  EXPECT_NE(dumped.out.find("auto"), std::string::npos) << dumped.out;
  EXPECT_EQ(dumped.out.find("bucket_mb"), std::string::npos) << "as written";
}

}  // namespace
}  // namespace dptrain
