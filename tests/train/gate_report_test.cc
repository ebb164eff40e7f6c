// The files that bless writes, and the differences that gate finds.
#include "train/gate_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/expect_error.h"
#include "support/idx_files.h"
#include "support/json_schema.h"
#include "support/source_tree.h"
#include "train/experiment_of.h"

namespace dptrain::train {
namespace {

using GateVerdict = GateReport::Finding::Verdict;

Blessing blessed() {
  return {.run = "lenet",
          .config = "name: lenet\ndevices: [cpu:0, cpu:1]\nstrategy: ddp\nlearning_rate: 0.1\n",
          .version = "1.2.3",
          .commit = "abc",
          .instructions = "avx512",
          .first = {.steps = {{.learning_rate = 0.1, .samples = 64, .loss = 2.5},
                              {.learning_rate = 0.1, .samples = 64, .loss = 2.25}},
                    .sent = {.bytes = 4000, .collectives = 4},
                    .devices = {{.name = "cpu:0", .peak_bytes = 1'000'000}, {.name = "cpu:1", .peak_bytes = 2'000'000}},
                    .weights_hash = std::string(64, 'a')},
          .loss_bounds = {1e-5, 1e-4}};
}

struct Gate {
  explicit Gate(const std::function<void(Blessing&)>& change) { change(now); }

  const Blessing before = blessed();
  Blessing now = blessed();
  GateReport report = {.blessed = before, .now = now, .file = "lenet.json"};

  GateVerdict verdict(const std::string& what) const {
    for (const auto& finding : report.findings())
      if (finding.what.starts_with(what)) return finding.verdict;
    ADD_FAILURE() << "nothing was found of " << what;
    return GateVerdict::not_compared;
  }
};

TEST(GateReport, IsOpenForTheSame) {
  const Gate gate([](Blessing&) {});
  EXPECT_EQ(gate.report.failures(), std::vector<std::string>());
  for (const auto& finding : gate.report.findings()) EXPECT_EQ(finding.verdict, GateVerdict::equal) << finding.what;
  EXPECT_EQ(testing::schema_violations("gate.schema.json", nlohmann::json::parse(gate.report.json())),
            std::vector<std::string>());
}

TEST(GateReport, ALossIsHeldToTheBoundOfItsStep) {
  const Gate within([](Blessing& now) { now.first.steps[1].loss += 0.9e-4; });
  EXPECT_EQ(within.report.failures(), std::vector<std::string>());
  EXPECT_EQ(within.verdict("loss of step 2"), GateVerdict::within);
  const Gate beyond([](Blessing& now) {
    now.first.steps[0].loss += 0.9e-4;
    now.first.steps[1].loss -= 1.1e-4;
  });
  EXPECT_EQ(beyond.report.failures(),
            std::vector<std::string>{"loss of step 1: 2.50009, expected the blessed 2.5 within 1e-05 (2 of 2 steps "
                                     "differ); the configuration is the blessed one"});
  const Gate none([](Blessing& now) { now.first.steps[1].loss = std::nan(""); });
  EXPECT_EQ(none.report.failures().size(), 1U);
  EXPECT_EQ(none.verdict("loss of step 2"), GateVerdict::differs);
  EXPECT_EQ(testing::schema_violations("gate.schema.json", nlohmann::json::parse(none.report.json())),
            std::vector<std::string>());
}

TEST(GateReport, SaysWhatHasChangedInTheConfiguration) {
  const Gate gate([](Blessing& now) {
    now.first.steps[1].learning_rate = 0.2;
    now.first.steps[0].samples = 32;
    now.config = "name: other\ndevices: [cpu:0, cpu:1]\nstrategy: ddp\nlearning_rate: 0.2\n";
  });
  EXPECT_EQ(gate.report.failures(),
            (std::vector<std::string>{
                "learning rate of step 2: 0.2, expected the blessed 0.1; changed since: learning_rate 0.1 -> 0.2",
                "samples of step 1: 32, expected the blessed 64"}));
}

TEST(GateReport, WhatIsSentIsEqualOfAsManyDevicesUnderTheStrategy) {
  const auto sends_more = [](Blessing& now) { now.first.sent.bytes = 4001; };
  EXPECT_EQ(Gate(sends_more).verdict("bytes sent"), GateVerdict::differs);
  EXPECT_EQ(Gate([](Blessing& now) { now.first.sent.collectives = 3; }).verdict("calls"), GateVerdict::differs);
  for (const std::function<void(Blessing&)>& other :
       {std::function<void(Blessing&)>([](Blessing& now) { now.instructions = "avx2"; }),
        std::function<void(Blessing&)>([](Blessing& now) { now.first.devices.resize(1); }),
        std::function<void(Blessing&)>([](Blessing& now) {
          now.config = "name: lenet\ndevices: [cpu:0, cpu:1]\nstrategy: kvstore\nlearning_rate: 0.1\n";
        })}) {
    const Gate gate([&](Blessing& now) {
      sends_more(now);
      other(now);
    });
    EXPECT_EQ(gate.verdict("bytes sent"), GateVerdict::not_compared);
    EXPECT_EQ(gate.verdict("peak of rank 0"), GateVerdict::not_compared);
    EXPECT_EQ(gate.report.failures(), std::vector<std::string>());
    EXPECT_NE(gate.report.text(80).find("not compared: "), std::string::npos);
  }
}

TEST(GateReport, ADeviceMayHoldAHundredthMore) {
  const auto holding = [](int64_t bytes) {
    return Gate([bytes](Blessing& now) { now.first.devices[1].peak_bytes = bytes; }).verdict("peak of rank 1 (cpu:1)");
  };
  EXPECT_EQ(holding(2'000'000), GateVerdict::equal);
  EXPECT_EQ(holding(2'020'000), GateVerdict::within);
  EXPECT_EQ(holding(2'020'001), GateVerdict::differs);
  EXPECT_EQ(holding(1'000'000), GateVerdict::less);
  const Gate threads([](Blessing& now) {
    now.first.devices[1].peak_bytes *= 2;
    now.config += "threads: [2]\n";
  });
  EXPECT_EQ(threads.verdict("peak of rank 1"), GateVerdict::not_compared);
}

TEST(GateReport, MemoryThatVariesOrIsOfOtherStepsAheadIsNotCompared) {
  const Gate varies([](Blessing& now) {
    now.memory_varies = true;
    now.first.devices[0].peak_bytes *= 2;
  });
  EXPECT_EQ(varies.verdict("peak of rank 0"), GateVerdict::not_compared);
  EXPECT_EQ(varies.verdict("bytes sent"), GateVerdict::equal);
  const Gate ahead([](Blessing& now) {
    now.config += "steps_in_flight: 3\n";
    now.first.devices[0].peak_bytes *= 2;
  });
  EXPECT_EQ(ahead.verdict("peak of rank 0"), GateVerdict::not_compared);
}

TEST(GateReport, OtherBitsOfWeightsAreNoFault) {
  const Gate gate([](Blessing& now) { now.first.weights_hash = std::string(64, 'b'); });
  EXPECT_EQ(gate.verdict("weights"), GateVerdict::other_bits);
  EXPECT_EQ(gate.report.failures(), std::vector<std::string>());
}

TEST(LossBounds, AreFourTimesWhatANudgeChangesSoFar) {
  FirstSteps first;
  for (const double loss : {2.0, 2.0, 2.0}) first.steps.push_back({.learning_rate = 1, .samples = 1, .loss = loss});
  std::vector<FirstSteps> nudged(3, first);
  nudged[0].steps[1].loss = 2.001;
  nudged[1].steps[1].loss = 1.998;
  const std::vector<double> bounds = loss_bounds(first, nudged, Precision::fp32);
  EXPECT_NEAR(bounds[0], 2.0 * 80 * std::ldexp(1, -24), 1e-12);
  EXPECT_NEAR(bounds[1], 8e-3, 1e-12);
  EXPECT_NEAR(bounds[2], 8e-3, 1e-12) << "what was noise once goes on";
  EXPECT_NEAR(loss_bounds(first, {first}, Precision::bf16)[0], 2.0 / 128, 1e-12);
}

class BlessingFile : public ::testing::Test {
 protected:
  std::filesystem::path written(const std::string& text) const {
    folder_.write("blessed.json", text);
    return folder_.path() / "blessed.json";
  }
  testing::ScratchFolder folder_;
};

TEST_F(BlessingFile, IsReadAsItWasWritten) {
  const Blessing before = blessed();
  EXPECT_EQ(testing::schema_violations("blessing.schema.json", nlohmann::json::parse(before.json())),
            std::vector<std::string>());
  const Blessing read = read_blessing(written(before.json()));
  EXPECT_EQ(read.json(), before.json());
  EXPECT_EQ(read.config, before.config);
  EXPECT_EQ(read.first.steps[1].loss, before.first.steps[1].loss);
}

TEST_F(BlessingFile, SomethingElseIsRefused) {
  testing::expect_error(ExitCode::missing_file, {"none.json"}, [&] { read_blessing(folder_.path() / "none.json"); });
  for (const std::string& damaged :
       {std::string("{"), std::string("[]"), std::string("{\"schema\": 1}"), blessed().json().substr(0, 200)})
    testing::expect_error(ExitCode::bad_data, {"blessed.json", "a file that dptrain bless has written"},
                          [&] { read_blessing(written(damaged)); });
  const auto refused = [&](const char* place, const nlohmann::json& value, const std::string& word) {
    nlohmann::json edited = nlohmann::json::parse(blessed().json());
    edited[nlohmann::json::json_pointer(place)] = value;
    testing::expect_error(ExitCode::bad_data, {"blessed.json", "a file that dptrain bless has written", word},
                          [&] { read_blessing(written(edited.dump())); });
  };
  refused("/steps", nlohmann::json::array(), "no steps");
  refused("/schema", 2, "schema");
  refused("/steps/1/step", 3, "order");
  refused("/steps/0/loss_bound", -1, "loss_bound: -1");
  refused("/steps/0/samples", 1.5, "samples: 1.5");
  refused("/steps/0/loss", "low", "loss: \"low\"");
  refused("/sent/bytes", -1, "bytes: -1");
  refused("/devices/0/peak_bytes", 1e30, "peak_bytes");
  refused("/weights_hash", "none", "weights_hash");
  refused("/by/commit", "a\x1b[31m", "commit");
  refused("/config", nlohmann::json::array(), "no configuration");
  refused("/config", nlohmann::json::array({"a: ["}), "no configuration");
}

TEST(FirstStepsTest, AreTheTrainingsOwn) {
  const Experiment experiment = experiment_of({"steps=2", "epochs="});
  const Datasets data = experiment.dataset.open();
  const FirstSteps first = train_first_steps(experiment, data, {.steps = 2});
  const FirstSteps again = train_first_steps(experiment, data, {.steps = 2});
  EXPECT_EQ(first.weights_hash, again.weights_hash);
  EXPECT_EQ(first.devices.at(1).peak_bytes, again.devices.at(1).peak_bytes);
  testing::ScratchFolder folder;
  RunDirectory directory(folder.path() / "run", EarlierRun::refuse);
  directory.write_config("model: lenet\n");
  TrainingObserver observer;
  const StopSignal stop = 0;
  const TrainingOutcome trained = Trainer(experiment, data).run(directory, observer, stop);
  EXPECT_EQ(first.weights_hash, trained.weights_hash);
  EXPECT_EQ(first.sent.bytes, nlohmann::json::parse(trained.last_line)["comm"]["bytes"]);
  const FirstSteps nudged = train_first_steps(experiment, data, {.steps = 2, .nudge_roundings = 256});
  EXPECT_NE(nudged.steps[1].loss, first.steps[1].loss);
  EXPECT_NEAR(nudged.steps[1].loss, first.steps[1].loss, 1e-2);
}

}  // namespace
}  // namespace dptrain::train
