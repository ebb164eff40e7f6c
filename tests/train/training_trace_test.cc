// trace.json of a run: the requested steps, as events that the Trace Event Format specifies.
#include "train/training_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "support/idx_files.h"
#include "support/source_tree.h"
#include "train/experiment_of.h"

namespace dptrain::train {
namespace {

using nlohmann::json;

class TrainingTraceTest : public ::testing::Test {
 protected:
  /// trace.json of a run of 6 steps, 3 per epoch; null where there is none.
  json traced(const TracedSteps& steps, const std::vector<std::string>& overrides = {}) {
    Experiment experiment = experiment_of(overrides);
    experiment.traced = steps;
    const Datasets data = experiment.dataset.open();
    RunDirectory directory(folder_.path() / "run", EarlierRun::overwrite);
    directory.remove_earlier_run();
    directory.write_config("model: lenet\n");
    hash_ = Trainer(experiment, data).run(directory, warnings_, stop_).weights_hash;
    const auto file = folder_.path() / "run" / "trace.json";
    return std::filesystem::exists(file) ? json::parse(read_file(file)) : json();
  }

  class Warnings final : public TrainingObserver {
   public:
    void on_warning(const std::string& warning) override { told.push_back(warning); }
    std::vector<std::string> told;
  };

  testing::ScratchFolder folder_;
  Warnings warnings_;
  StopSignal stop_ = 0;
  std::string hash_;
};

std::vector<json> named(const json& trace, const std::string& begin, int pid) {
  std::vector<json> events;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "X" && event["pid"] == pid && event["name"].get<std::string>().starts_with(begin))
      events.push_back(event);
  return events;
}

TEST_F(TrainingTraceTest, EveryRankHasItsRows) {
  const json trace = traced({.numbered = parallel::ShownSteps{.first = 2, .last = 4}});
  EXPECT_EQ(trace["otherData"]["steps"], "2-4");
  EXPECT_EQ(trace["otherData"]["strategy"], "ddp");
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> rows;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name") rows[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  EXPECT_EQ(processes[0], "rank 0 (cpu:0)");
  EXPECT_EQ(processes[1], "rank 1 (cpu:1)");
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_TRUE(rows.contains({event["pid"], event["tid"]})) << event.dump();
    EXPECT_GE(event["ts"], 0);
    EXPECT_GE(event["dur"], 0);
  }
  for (const int rank : {0, 1}) {
    std::set<std::string> names;
    for (const auto& [place, name] : rows)
      if (place.first == rank) names.insert(name);
    EXPECT_TRUE(names.contains("computing"));
    EXPECT_TRUE(names.contains("communication"));
    const auto steps = named(trace, "step ", rank);
    ASSERT_EQ(steps.size(), 3U);
    for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i]["name"], "step " + std::to_string(i + 2));
    EXPECT_FALSE(named(trace, "all_reduce", rank).empty());
  }
  const int main_thread = processes.rbegin()->first;
  EXPECT_EQ(processes[main_thread], "process");
  // The fourth step is the first of the second epoch.
  EXPECT_EQ(named(trace, "evaluate", main_thread).size(), 1U);
  EXPECT_EQ(named(trace, "wait for the next batch", main_thread).size(), 4U) << "an epoch's end is one, too";
}

TEST_F(TrainingTraceTest, SpansOfARowLieWithinOrBehindEachOther) {
  const json trace = traced({.numbered = parallel::ShownSteps{.first = 1, .last = 6}},
                            {"strategy={name: ddp, first_bucket_mb: 0.01, bucket_mb: 0.01}"});
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> rows;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "X")
      rows[{event["pid"], event["tid"]}].emplace_back(event["ts"],
                                                      event["ts"].get<double>() + event["dur"].get<double>());
  // Times have three decimals; sums of them round as well.
  constexpr double kRounding = 1e-2;
  for (const auto& [row, spans] : rows)
    for (const auto& [begin, end] : spans)
      for (const auto& [other_begin, other_end] : spans) {
        if (begin > other_begin) continue;
        EXPECT_TRUE(other_begin >= end - kRounding || other_end <= end + kRounding)
            << "row " << row.second << " of " << row.first;
      }
}

TEST_F(TrainingTraceTest, AnOperatorSaysWhatItWasGivenAndHowFastItWas) {
  const json trace = traced({.numbered = parallel::ShownSteps{.first = 2, .last = 2}}, {"devices=[cpu:0]"});
  const json convolution = named(trace, "conv2d", 0).front();
  EXPECT_TRUE(convolution["args"]["of"].get<std::string>().starts_with("[16, 1, 16, 16] [20, 1, 5, 5]"));
  const double seconds = convolution["dur"].get<double>() / 1e6;
  EXPECT_NEAR(convolution["args"]["gflop_per_s"].get<double>() * seconds, convolution["args"]["gflop"].get<double>(),
              1e-3 * convolution["args"]["gflop"].get<double>() + 1e-9);
  int64_t most = 0;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "C") most = std::max<int64_t>(most, event["args"]["bytes"]);
  EXPECT_GT(most, 2 * 4 * 33'000) << "LeNet's weights for such images, and their gradients";
  EXPECT_TRUE(named(trace, "all_reduce", 0).empty());
}

TEST_F(TrainingTraceTest, ItChangesNothingThatIsTrained) {
  traced({.numbered = parallel::ShownSteps{.first = 1, .last = 6}});
  const std::string with = hash_;
  Experiment experiment = experiment_of();
  RunDirectory directory(folder_.path() / "other", EarlierRun::refuse);
  directory.write_config("model: lenet\n");
  EXPECT_EQ(Trainer(experiment, experiment.dataset.open()).run(directory, warnings_, stop_).weights_hash, with);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "other" / "trace.json"));
}

TEST_F(TrainingTraceTest, AFileThatCantBeWrittenCostsNoTraining) {
  Experiment experiment = experiment_of();
  experiment.traced = TracedSteps{.count = 2};
  RunDirectory directory(folder_.path() / "run", EarlierRun::refuse);
  directory.write_config("model: lenet\n");
  std::filesystem::create_directories(folder_.path() / "run" / "trace.json" / "in the way");
  const TrainingOutcome outcome = Trainer(experiment, experiment.dataset.open()).run(directory, warnings_, stop_);
  EXPECT_EQ(outcome.steps, 6);
  ASSERT_EQ(warnings_.told.size(), 1U);
  EXPECT_TRUE(warnings_.told[0].starts_with("trace.json isn't written: ")) << warnings_.told[0];
}

TEST_F(TrainingTraceTest, StepsThatNeverComeAreToldOf) {
  EXPECT_TRUE(traced({.numbered = parallel::ShownSteps{.first = 7, .last = 8}}).is_null());
  EXPECT_EQ(warnings_.told, std::vector<std::string>{"trace.json won't be written: --trace asks for steps 7-8, but "
                                                     "only steps 1-6 are trained"});
  const json some = traced({.numbered = parallel::ShownSteps{.first = 6, .last = 7}});
  EXPECT_EQ(named(some, "step ", 0).size(), 1U);
  EXPECT_EQ(some["otherData"]["steps"], "6-6");
}

}  // namespace
}  // namespace dptrain::train
