// Ctrl-C and SIGTERM: the current step is finished, the weights are written, and the exit code says which signal it
// was.
#include <signal.h>

#include "base/clock.h"
#include "device/cuda_probe.h"
#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Finished;
using testing::Process;

/// A quiet machine needs some milliseconds. A run that ignores the signal goes on for minutes.
constexpr double kDeadline_s = 20;

class SignalsTest : public testing::CommandTest {
 protected:
  static testing::Arguments endless(const testing::Arguments& more = {}) {
    testing::Arguments overrides = {"epochs=100000", "log_steps=true"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return training("run", overrides);
  }
  size_t lines(const char* file) const { return testing::lines_of(text(std::string("run/") + file)).size(); }

  Finished stop(Process& process, int number) const {
    const auto begun = Clock::now();
    process.signal(number);
    Finished finished = process.wait();
    EXPECT_LT(seconds_since(begun), kDeadline_s);
    return finished;
  }

  void expect_whole(int exit) const {
    const auto summary = json_of("run/summary.json");
    EXPECT_EQ(violations("summary.schema.json", summary), std::vector<std::string>());
    EXPECT_EQ(summary["exit"], exit);
    EXPECT_EQ(summary["weights_hash"], hash("run"));
    const auto metrics = json_lines("run/metrics.jsonl");
    EXPECT_EQ(metrics.size(), summary["epochs"]);
    for (const auto& line : metrics) EXPECT_EQ(violations("metrics.schema.json", line), std::vector<std::string>());
    EXPECT_EQ(json_lines("run/steps.jsonl").size(), summary["steps"]);
  }

  void expect_stops(int number, int exit, const char* name, const testing::Arguments& overrides = {}) {
    Process process(program(endless(overrides)));
    process.wait_until([&] { return lines("metrics.jsonl") >= 1; });
    const size_t steps = lines("steps.jsonl");
    const Finished finished = stop(process, number);
    expect_failed(finished, exit, {"stopped by", name, "after step", "the weights are in", "model.safetensors"});
    EXPECT_GE(lines("steps.jsonl"), steps);
    expect_whole(exit);
  }
};

TEST_F(SignalsTest, SigintEndsAfterTheStepInHand) { expect_stops(SIGINT, 130, "SIGINT"); }

TEST_F(SignalsTest, SigtermEndsAfterTheStepInHand) { expect_stops(SIGTERM, 143, "SIGTERM"); }

/// Runs on the first GPU, whose steps are recorded and submitted ahead.
class CudaSignalsTest : public SignalsTest {};

TEST_F(CudaSignalsTest, SigintEndsAfterTheStepInHand) {
  if (cuda_devices().empty()) GTEST_SKIP() << "no GPU: " << cuda_absence();
  expect_stops(SIGINT, 130, "SIGINT", {"devices=cuda:0", "threads=", "strategy=single"});
}

TEST_F(SignalsTest, TheWeightsAreThoseOfTheStepsThatWereMade) {
  Process process(program(endless({"strategy=data_parallel"})));
  process.wait_until([&] { return lines("steps.jsonl") >= 3; });
  stop(process, SIGINT);
  const auto summary = json_of("run/summary.json");
  const int64_t steps = summary["steps"];
  train("same", {"epochs=", "steps=" + std::to_string(steps)});
  EXPECT_EQ(hash("same"), summary["weights_hash"]);
}

TEST_F(SignalsTest, AnEvaluationIsLeftInItsMiddleAndMadeWhereItGoesOn) {
  // ResNet-18 has one small step to make, and then minutes of images to evaluate.
  const testing::Arguments net = {"model=resnet18", "batch_size=2",
                                  "dataset={name: synthetic, samples: 2, test_samples: 40000, shape: [1, 28, 28]}"};
  Process process(program(endless(net)));
  process.wait_until([&] { return lines("steps.jsonl") == 1; });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const Finished finished = stop(process, SIGINT);
  expect_failed(finished, 130, {"SIGINT", "after step 1"});
  expect_whole(130);
  EXPECT_EQ(lines("metrics.jsonl"), 0u) << "an epoch without its score would stand there for good";
  testing::Arguments less = net;
  less.insert(less.end(), {"dataset.test_samples=4", "epochs=1"});
  testing::Arguments resuming = training("run", less);
  resuming.emplace_back("--resume");
  const Finished goes_on = run(resuming);
  EXPECT_EQ(goes_on.exit, 0) << goes_on.err;
  EXPECT_NE(goes_on.out.find("    1/1  "), std::string::npos) << goes_on.out;
  train("whole", less);
  const auto resumed = last_metrics("run"), whole = last_metrics("whole");
  for (const char* key : {"epoch", "step", "weights_hash"}) EXPECT_EQ(resumed[key], whole[key]) << key;
  EXPECT_EQ(resumed["train"]["loss"], whole["train"]["loss"]);
  EXPECT_EQ(resumed["test"]["loss"], whole["test"]["loss"]);
}

TEST_F(SignalsTest, ASecondSignalLeavesAtOnce) {
  struct Row {
    int first, second, exit;
    const char* name;
  };
  for (const Row& row : {Row{SIGINT, SIGINT, 130, "SIGINT"}, Row{SIGTERM, SIGTERM, 143, "SIGTERM"},
                         Row{SIGINT, SIGTERM, 143, "SIGTERM"}, Row{SIGHUP, SIGINT, 130, "SIGINT"}}) {
    SCOPED_TRACE(::testing::Message() << "signals " << row.first << ", " << row.second);
    std::filesystem::remove_all(path("run"));
    // A step takes several seconds, so that the second signal arrives while the first waits for the step's end.
    Process process(program(endless({"model=resnet18", "devices=cpu:0", "strategy=", "batch_size=1600",
                                     "dataset={name: synthetic, samples: 1600, shape: [1, 28, 28]}"})));
    process.wait_until([&] { return exists("run/config.yaml"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    process.signal(row.first);
    // By then a launcher's copy of the first signal would have arrived.
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    const Finished finished = stop(process, row.second);
    expect_failed(finished, row.exit, {"stopped at once by a second ", row.name, "nothing was saved"});
    EXPECT_NE(finished.err.find("a second Ctrl-C or SIGTERM stops at once"), std::string::npos) << finished.err;
    EXPECT_FALSE(exists("run/summary.json"));
    EXPECT_FALSE(exists("run/checkpoints"));
  }
}

/// A launcher sends its own copy of the terminal's signal.
TEST_F(SignalsTest, ACopyOfTheFirstSignalIsNoSecondOne) {
  Process process(program(endless()));
  process.wait_until([&] { return lines("metrics.jsonl") >= 1; });
  process.signal(SIGTERM);
  const Finished finished = stop(process, SIGTERM);
  expect_failed(finished, 143, {"stopped by SIGTERM", "the weights are in"});
  expect_whole(143);
}

TEST_F(SignalsTest, AKilledRunLeavesWholeLines) {
  Process process(program(endless()));
  process.wait_until([&] { return lines("metrics.jsonl") >= 2; });
  EXPECT_EQ(stop(process, SIGKILL).exit, 137);
  for (const auto& line : json_lines("run/metrics.jsonl"))
    EXPECT_EQ(violations("metrics.schema.json", line), std::vector<std::string>());
  EXPECT_FALSE(json_lines("run/steps.jsonl").empty());
}

}  // namespace
}  // namespace dptrain
