// Held-out samples choose the best epoch: what the program prints, writes and continues from.
#include <fmt/format.h>

#include <algorithm>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;
using testing::lines_of;

class ValidationTest : public testing::CommandTest {
 protected:
  /// After two epochs the learning rate is too small to change a weight, so no later epoch is better.
  static Arguments validated(const Arguments& more = {}) {
    Arguments all = {"epochs=8", "validation={samples: 100, patience: 2}",
                     "schedule={name: step, every_epochs: 2, gamma: 1.0e-30}"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(ValidationTest, TheBestEpochIsToldLinkedAndEvaluated) {
  const Finished finished = train("run", validated());
  const auto lines = json_lines("run/metrics.jsonl");
  for (const auto& line : lines) EXPECT_EQ(violations("metrics.schema.json", line), Arguments()) << line.dump();
  const auto summary = json_of("run/summary.json");
  EXPECT_EQ(violations("summary.schema.json", summary), Arguments());
  EXPECT_TRUE(summary["stopped_early"]);
  const size_t best = summary["best"]["epoch"];
  EXPECT_EQ(lines.size(), best + 2);
  for (const char* key : {"step", "validation", "test", "weights_hash"})
    EXPECT_EQ(summary["best"][key], lines[best - 1][key]);
  EXPECT_EQ(hash("run/checkpoints/best"), summary["best"]["weights_hash"]);

  EXPECT_NE(finished.out.find("valid. loss"), std::string::npos) << finished.out;
  const std::string told = "stopped early after epoch " + std::to_string(best + 2) + "; best epoch " +
                           std::to_string(best) + ": validation loss ";
  EXPECT_NE(finished.out.find(told), std::string::npos) << finished.out;
  const Finished evaluated = run({"eval", "--config", "digits.yaml", "--checkpoint", "run/checkpoints/best", "--json"});
  ASSERT_EQ(evaluated.exit, 0) << evaluated.err;
  EXPECT_EQ(nlohmann::json::parse(evaluated.out)["loss"], summary["best"]["test"]["loss"]);

  Arguments again = training("run", validated());
  again.emplace_back("--resume");
  const Finished resumed = run(again);
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("run is finished: it was stopped early after "), std::string::npos) << resumed.out;
  EXPECT_EQ(json_of("run/summary.json"), summary);
}

TEST_F(ValidationTest, MoreEpochsDontGoOnWithARunWhosePatienceIsUsedUp) {
  Arguments settings = validated({"validation={samples: 100}", "epochs=4"});
  train("run", settings);
  const auto summary = json_of("run/summary.json");
  settings.insert(settings.end(), {"validation.patience=2", "epochs=6"});
  Arguments again = training("run", settings);
  again.emplace_back("--resume");
  const Finished resumed = run(again);
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("it was stopped early after " + summary["steps"].dump() + " steps"), std::string::npos)
      << resumed.out;
  EXPECT_EQ(json_of("run/summary.json"), summary);
}

TEST_F(ValidationTest, AReducedRateIsToldOfBetweenTheEpochs) {
  const Arguments settings = {"epochs=4", "validation={samples: 100}",
                              "schedule={name: plateau, patience: 1, factor: 0.5, threshold: 0.99}"};
  const Finished finished = train("run", settings);
  const double rate = json_lines("run/metrics.jsonl")[0]["learning_rate"];
  const std::string told = fmt::format("validation no longer improves: learning rate reduced to {:.4g}\n", rate / 2);
  const size_t at = finished.out.find(told);
  ASSERT_NE(at, std::string::npos) << finished.out;
  EXPECT_LT(finished.out.find(" 3/4 "), at) << finished.out;
  EXPECT_GT(finished.out.find(" 4/4 "), at) << finished.out;
  EXPECT_EQ(json_lines("run/metrics.jsonl")[3]["learning_rate"], rate / 2);
}

TEST_F(ValidationTest, HasItsColumnsWhereTheFirstEpochIsNotEvaluated) {
  const Finished finished = train("run", {"epochs=2", "eval_every=2", "validation={samples: 100}"});
  EXPECT_NE(finished.out.find("valid. loss"), std::string::npos) << finished.out;
  EXPECT_EQ(json_of("run/summary.json")["best"]["epoch"], 2);
}

TEST_F(ValidationTest, ATableAndItsOrderAreByTheBestEpoch) {
  train("low", validated({"learning_rate=0.002"}));
  train("high", validated());
  const Finished table = run({"table", "low", "high", "--json", "--sort", "validation_loss"});
  ASSERT_EQ(table.exit, 0) << table.err;
  const auto document = nlohmann::json::parse(table.out);
  EXPECT_EQ(violations("table.schema.json", document), Arguments());
  const auto& runs = document["runs"];
  EXPECT_EQ(runs[0]["run"], "high");
  for (const auto& run : runs) {
    const auto best = json_of(run["run"].get<std::string>() + "/summary.json")["best"];
    EXPECT_EQ(run["validation_loss"], best["validation"]["loss"]);
    EXPECT_EQ(run["validation_accuracy"], best["validation"]["accuracy"]);
    EXPECT_EQ(run["accuracy"], best["test"]["accuracy"]);
  }
  const Finished shown = run({"table", "low", "high"});
  EXPECT_NE(shown.out.find("valid. accuracy %"), std::string::npos) << shown.out;
  train("without");
  EXPECT_EQ(run({"table", "without"}).out.find("valid."), std::string::npos);
  expect_failed(run({"table", "without", "--sort", "validation_loss"}), 64, {"--sort", "'validation_loss'"});
}

TEST_F(ValidationTest, MoreThanThereAreAreRefused) {
  expect_refused(training("run", {"validation={samples: 100000}"}), 78,
                 {"validation.samples: expected fewer than the ", " training samples, got 100000; hold out fewer"});
}

/// `eval` holds no samples out, so it accepts a smaller data set, and a user's own images.
TEST_F(ValidationTest, AnEvaluationNeedsNoSamplesToHoldOut) {
  train("run", {"validation={samples: 16}"});
  for (const char* command : {"eval", "eval --by-class"}) {
    Arguments arguments = {
        "eval",  "--config",       "digits.yaml", "--checkpoint", "run", "--set", "validation={samples: 16}",
        "--set", "dataset.limit=8"};
    if (command != std::string("eval")) arguments.emplace_back("--by-class");
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.exit, 0) << command << ": " << finished.err;
  }
}

}  // namespace
}  // namespace dptrain
