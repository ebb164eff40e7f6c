// Runs resume through the program from their checkpoints, and checkpoints are evaluated. killed_run_test.cc tests
// kills.

#include <algorithm>
#include <limits>

#include "data/small_text.h"
#include "e2e/command_fixture.h"
#include "support/idx_files.h"
#include "support/png_files.h"
#include "train/safetensors.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;

class ResumeTest : public testing::CommandTest {
 protected:
  static testing::Arguments resuming(const std::string& out, const testing::Arguments& overrides = {},
                                     const std::string& checkpoint = {}) {
    testing::Arguments arguments = training(out, overrides);
    arguments.emplace_back("--resume");
    if (!checkpoint.empty()) arguments.push_back(checkpoint);
    return arguments;
  }
  size_t lines(const std::string& file) const { return testing::lines_of(text(file)).size(); }
};

TEST_F(ResumeTest, WithoutACheckpointItStarts) {
  const Finished finished = run(resuming("run"));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(finished.out.find("resumed"), std::string::npos);
  EXPECT_EQ(lines("run/metrics.jsonl"), 1u);
}

TEST_F(ResumeTest, EpochsWithoutACheckpointAreDroppedWithAWord) {
  train("run", {"epochs=2"});
  std::filesystem::remove_all(path("run/checkpoints"));
  std::filesystem::remove(path("run/summary.json"));
  const Finished finished = run(resuming("run"));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.err.find("run: no checkpoint to resume from; the run starts again"), std::string::npos)
      << finished.err;
  EXPECT_EQ(lines("run/metrics.jsonl"), 1u);
}

/// A sweep removes checkpoints of finished runs to save space.
TEST_F(ResumeTest, AFinishedRunStaysFinishedWithoutItsCheckpoints) {
  train("run");
  std::filesystem::remove_all(path("run/checkpoints"));
  const std::string metrics = text("run/metrics.jsonl"), summary = text("run/summary.json");
  const Finished again = run(resuming("run"));
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_NE(again.out.find("run is finished: all 5 steps were made"), std::string::npos) << again.out;
  expect_failed(
      run(resuming("run", {"epochs=2"})), 65,
      {"run: the run is finished, expected a checkpoint to resume from with epochs 1 -> 2, got none", "--overwrite"});
  EXPECT_EQ(text("run/metrics.jsonl"), metrics);
  EXPECT_EQ(text("run/summary.json"), summary);
}

TEST_F(ResumeTest, ADamagedLineOfMetricsIsTold) {
  train("run", {"epochs=2"});
  folder_.write("run/metrics.jsonl", "garbage\n" + testing::lines_of(text("run/metrics.jsonl")).at(1) + "\n");
  const Finished on = run(resuming("run", {"epochs=3"}));
  EXPECT_EQ(on.exit, 0) << on.err;
  EXPECT_NE(on.err.find("run/metrics.jsonl: line 1 is not one that a run writes"), std::string::npos) << on.err;
  EXPECT_EQ(lines("run/metrics.jsonl"), 2u);
  EXPECT_EQ(lines("run/metrics.jsonl.damaged"), 2u);
}

/// Weights that are NaN, or that make results NaN, are refused by eval and predict, and as initial weights.
TEST_F(ResumeTest, WeightsThatAreNotFiniteAreReadByNoCommand) {
  train("run");
  const auto tensors = train::read_safetensors(path("run/checkpoints/step-000005/model.safetensors"));
  const auto with = [&](const std::string& name, float value) {
    auto changed = tensors;
    for (auto& tensor : changed)
      if (tensor.name == name) std::ranges::fill(tensor.values, value);
    train::write_safetensors(path("bad.safetensors"), changed);
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
    with("fc2.bias", value);
    const Arguments words = {"bad.safetensors: fc2.bias", "expected finite values", "earlier checkpoint"};
    expect_failed(run({"eval", "--config", "digits.yaml", "--checkpoint", "bad.safetensors"}), 65, words);
    expect_failed(run(training("other", {"init={from: bad.safetensors}"})), 65, words);
    EXPECT_FALSE(exists("other"));
  }
  // The weight is finite, but the logits overflow.
  with("fc2.weight", 3e38f);
  expect_failed(run({"eval", "--config", "digits.yaml", "--checkpoint", "bad.safetensors"}), 79,
                {"bad.safetensors", "finite loss"});
  testing::write_idx_dataset(folder_, 2, 2, 28);
  expect_failed(run({"predict", "--config", "digits.yaml", "--checkpoint", "bad.safetensors", "--input",
                     "t10k-images-idx3-ubyte"}),
                79, {"t10k-images-idx3-ubyte: image 0", "finite outputs"});
}

TEST_F(ResumeTest, AFinishedRunIsLeftUnchanged) {
  train("run");
  const std::string metrics = text("run/metrics.jsonl"), summary = text("run/summary.json");
  const auto written = std::filesystem::last_write_time(path("run/config.yaml"));
  const Finished finished = run(resuming("run"));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.out.find("is finished: all 5 steps"), std::string::npos) << finished.out;
  EXPECT_EQ(text("run/metrics.jsonl"), metrics);
  EXPECT_EQ(text("run/summary.json"), summary);
  EXPECT_EQ(std::filesystem::last_write_time(path("run/config.yaml")), written);
  EXPECT_EQ(finished.err, "");
  const Finished other = run(resuming("run", {"learning_rate=0.25"}));
  EXPECT_EQ(other.exit, 0);
  EXPECT_NE(other.err.find("run was trained with another configuration: learning_rate 0.05 -> 0.25; choose another"),
            std::string::npos)
      << other.err;
}

TEST_F(ResumeTest, TheLastLineSaysWhatThisStartHasTrained) {
  train("run", {"epochs=2"});
  const Finished finished = run(resuming("run", {"epochs=3"}));
  EXPECT_NE(finished.out.find("3 epochs, 15 steps, 5 of them now in "), std::string::npos) << finished.out;
}

/// A run loses its summary if it is killed after the last checkpoint, or was stopped by Ctrl-C in an earlier version.
TEST_F(ResumeTest, AFinishedRunWithoutItsSummaryGetsOne) {
  train("run", {"epochs=2"});
  auto summary = json_of("run/summary.json");
  const std::string weights = hash("run");
  summary["exit"] = 130;
  for (const std::string& left : {std::string(), summary.dump()}) {
    std::filesystem::remove(path("run/summary.json"));
    if (!left.empty()) folder_.write("run/summary.json", left);
    const Finished finished = run(resuming("run", {"epochs=2"}));
    EXPECT_EQ(finished.exit, 0) << finished.err;
    const auto written = json_of("run/summary.json");
    EXPECT_EQ(violations("summary.schema.json", written), std::vector<std::string>());
    EXPECT_EQ(written["exit"], 0);
    EXPECT_EQ(written["epochs"], 2);
    EXPECT_EQ(written["final"], last_metrics("run"));
    EXPECT_EQ(lines("run/metrics.jsonl"), 2u);
    EXPECT_EQ(hash("run"), weights);
  }
}

TEST_F(ResumeTest, ACopyOfARunGoesOn) {
  train("run");
  std::filesystem::create_directory(path("copy"));
  for (const auto& entry : std::filesystem::directory_iterator(path("run")))
    if (!entry.path().filename().string().starts_with('.'))
      std::filesystem::copy(entry.path(), path("copy") / entry.path().filename(),
                            std::filesystem::copy_options::recursive);
  const Finished finished = run(resuming("copy", {"epochs=2"}));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(lines("copy/metrics.jsonl"), 2u);
}

TEST_F(ResumeTest, ASlashBehindACheckpointIsNoOtherOne) {
  train("run");
  const Finished finished = run(resuming("more", {"epochs=2"}, "run/checkpoints/step-000005/"));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.out.find("changed since: epochs 1 -> 2\n"), std::string::npos) << finished.out;
}

TEST_F(ResumeTest, OptionsOfAnotherStrategyAreNoChangesOfTheirOwn) {
  train("run");
  const Finished finished = run(resuming("run", {"epochs=2", "strategy=kvstore", "learning_rate=0.01"}));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.out.find("changed since: strategy ddp -> kvstore, learning_rate 0.05 -> 0.01, epochs 1 -> 2\n"),
            std::string::npos)
      << finished.out;
}

TEST_F(ResumeTest, NothingLeftToTrainIsSaid) {
  train("run");
  const Finished finished = run(resuming("more", {}, "run"));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.out.find("nothing is left to train"), std::string::npos) << finished.out;
  EXPECT_EQ(finished.out.find("metrics.jsonl"), std::string::npos) << "there is none\n" << finished.out;
  EXPECT_EQ(hash("more"), hash("run"));
}

TEST_F(ResumeTest, MoreEpochsOnOtherDevicesAreSaid) {
  train("run");
  const Finished finished = run(resuming("run", {"epochs=2", "devices=cpu:0-2", "ema=0.5"}));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.out.find("trained on cpu:0, cpu:1 before, on cpu:0, cpu:1, cpu:2 now; changed since: "
                              "epochs 1 -> 2, ema none -> 0.5\n"),
            std::string::npos)
      << finished.out;
  EXPECT_EQ(lines("run/metrics.jsonl"), 2u);
  EXPECT_EQ(json_of("run/summary.json")["steps"], 10);
}

TEST_F(ResumeTest, ADamagedCheckpointIsPassedOver) {
  train("run", {"epochs=2"});
  const std::string newest = "run/checkpoints/step-000010/model.safetensors";
  std::string bytes = text(newest);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  folder_.write(newest, bytes);
  std::filesystem::remove(path("run/summary.json"));
  const std::string before = last_metrics("run")["weights_hash"];
  const Finished finished = run(resuming("run", {"epochs=2"}));
  EXPECT_EQ(finished.exit, 0);
  EXPECT_NE(finished.err.find("model.safetensors"), std::string::npos);
  EXPECT_NE(finished.err.find("; the file is damaged or from another checkpoint; using "
                              "run/checkpoints/step-000005 instead\n"),
            std::string::npos)
      << finished.err;
  EXPECT_NE(finished.out.find("resumed after step 5"), std::string::npos) << finished.out;
  EXPECT_EQ(last_metrics("run")["weights_hash"], before);
  EXPECT_EQ(lines("run/metrics.jsonl"), 2u);
}

/// The commands that read weights are `eval`, `predict`, `hash` and `init`; each is given a run or a checkpoint's
/// folder.
TEST_F(ResumeTest, DamagedWeightsAreReadByNoCommand) {
  train("run", {"epochs=2"});
  const std::string newest = "run/checkpoints/step-000010", before = hash("run/checkpoints/step-000005");
  std::string bytes = text(newest + "/model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  folder_.write(newest + "/model.safetensors", bytes);
  folder_.write("gray.png", testing::png_file(28, 28, std::vector<uint8_t>(784)));
  const auto commands = [](const std::string& weights) {
    return std::vector<testing::Arguments>{
        {"eval", "--config", "digits.yaml", "--checkpoint", weights, "--json"},
        {"predict", "--config", "digits.yaml", "--checkpoint", weights, "--input", "gray.png"},
        {"hash", weights},
        training("warm" + std::to_string(weights.size()), {"learning_rate=1e-30", "init={from: " + weights + "}"})};
  };
  for (const std::string& named : {newest, newest + "/model.safetensors"})
    for (const auto& command : commands(named)) {
      SCOPED_TRACE(command.front());
      const Finished finished = run(command);
      expect_failed(finished, 65,
                    {newest + "/model.safetensors: expected SHA-256 ", ", got ", "; the file is damaged"});
      EXPECT_EQ(finished.out, "");
      EXPECT_EQ(testing::lines_of(finished.err).size(), 1u) << finished.err;
    }
  for (const auto& command : commands("run")) {
    SCOPED_TRACE(command.front());
    const Finished finished = run(command);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    EXPECT_NE(finished.err.find(newest + "/model.safetensors: expected SHA-256 "), std::string::npos) << finished.err;
    EXPECT_NE(finished.err.find("run/checkpoints/step-000005 instead\n"), std::string::npos) << finished.err;
    if (command.front() == "hash" || command.front() == "eval") {
      EXPECT_NE(finished.out.find(before), std::string::npos) << finished.out;
    }
  }
  EXPECT_EQ(hash("warm3"), before) << "a rate that changes nothing left what it began with";
}

/// A net without its ReLU has the same tensors, but computes another function.
TEST_F(ResumeTest, AnotherFunctionOfTheSameTensorsIsRefused) {
  folder_.write("gray.png", testing::png_file(28, 28, std::vector<uint8_t>(784)));
  const std::string net = "model={layers: [flatten, linear: 8, relu, linear: classes]}",
                    other = "model={layers: [flatten, linear: 8, linear: classes]}";
  train("run", {net});
  const testing::Arguments words = {"model.layers linear: {features: classes, ", "got relu for layer 2 of 4"};
  expect_failed(run(resuming("run", {other, "epochs=2"})), 65, words);
  for (testing::Arguments command :
       {testing::Arguments{"eval", "--config", "digits.yaml", "--checkpoint", "run"},
        testing::Arguments{"predict", "--config", "digits.yaml", "--checkpoint", "run", "--input", "gray.png"}}) {
    SCOPED_TRACE(command.front());
    command.insert(command.end(), {"--set", other});
    expect_failed(run(command), 65, words);
    command.back() = net;
    EXPECT_EQ(run(command).exit, 0);
  }
  EXPECT_EQ(train("warm", {other, "init={from: run}"}).exit, 0) << "who begins anew may change the net";
}

TEST_F(ResumeTest, WhereAllCheckpointsAreDamagedNothingIsChanged) {
  train("run");
  const std::string metrics = text("run/metrics.jsonl"), weights = "run/checkpoints/step-000005/model.safetensors";
  std::filesystem::resize_file(path(weights), 100);
  std::filesystem::remove(path("run/summary.json"));
  expect_failed(run(resuming("run")), 65, {"run/checkpoints", "expected an undamaged checkpoint", "got 1 damaged"});
  EXPECT_EQ(text("run/metrics.jsonl"), metrics);
  EXPECT_EQ(text(weights).size(), 100u);
  expect_failed(run(resuming("other", {}, "run")), 65, {"run/checkpoints", "got 1 damaged", "another --out"});
}

TEST_F(ResumeTest, TakesTheCheckpointThatIsNamed) {
  train("first", {"epochs=3"});
  train("whole", {"epochs=4"});
  const auto resumed = run(resuming("second", {"epochs=4"}, "first/checkpoints/step-000010"));
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(hash("second"), hash("whole"));
  EXPECT_EQ(run(resuming("third", {"epochs=4"}, "first")).exit, 0);
  EXPECT_EQ(hash("third"), hash("whole"));
  expect_failed(run(resuming("fourth", {}, "absent")), 66,
                {"absent: expected a run directory with a checkpoint, or a checkpoint's folder with manifest.json, got "
                 "nothing there; there is no run in runs; train one"});
  std::filesystem::create_symlink("loop", path("loop"));
  expect_failed(run(resuming("fourth", {}, "loop")), 74, {"loop: could not read the folder"});
  expect_failed(run(resuming("fifth", {"seed=7"}, "first")), 65, {"first", "seed 7", "got 0"});
}

TEST_F(ResumeTest, WhereNothingIsLeftToTrainTheRunHasTheCheckpoint) {
  train("first");
  const Finished resumed = run(resuming("second", {}, "first"));
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(hash("second"), hash("first"));
  const auto table = nlohmann::json::parse(run({"table", "second", "--json"}).out);
  EXPECT_EQ(table["runs"][0]["epochs"], json_of("first/summary.json")["epochs"]);
  EXPECT_EQ(run(resuming("second", {"epochs=2"})).exit, 0);
  EXPECT_EQ(json_of("second/summary.json")["steps"], 10);
}

TEST_F(ResumeTest, MomentumThatComesOrGoesIsNamed) {
  train("without", {"optimizer=sgd"});
  train("with", {"optimizer={name: sgd, momentum: 0.9}"});
  expect_failed(run(resuming("more", {"optimizer={name: sgd, momentum: 0.9}", "epochs=2"}, "without")), 65,
                {"optimizer.safetensors", "for this momentum, momentum_buffer, got nothing", "optimizer.momentum"});
  expect_failed(run(resuming("less", {"optimizer=sgd", "epochs=2"}, "with")), 65,
                {"optimizer.safetensors", "for this momentum, nothing, got momentum_buffer", "optimizer.momentum"});
}

TEST_F(ResumeTest, AnotherRunsCheckpointIsNotMixedWithWhatARunLeft) {
  train("first", {"epochs=2"});
  train("other", {"epochs=2", "seed=1"});
  const std::string metrics = text("other/metrics.jsonl");
  expect_failed(run(resuming("other", {"epochs=3"}, "first")), 74, {"other", "already has metrics", "--out"});
  EXPECT_EQ(text("other/metrics.jsonl"), metrics);
  EXPECT_EQ(run(resuming("first", {"epochs=2"}, "./first/checkpoints/step-000005")).exit, 0) << "an earlier of its own";
  EXPECT_EQ(lines("first/metrics.jsonl"), 2u);
}

TEST_F(ResumeTest, AnotherRunsCheckpointTakesThePlaceOfWhatIsToBeReplaced) {
  train("first", {"epochs=2"});
  train("other", {"epochs=3", "seed=1"});
  const auto replacing = [](const testing::Arguments& overrides, const std::string& checkpoint) {
    testing::Arguments arguments = resuming("other", overrides, checkpoint);
    arguments.emplace_back("--overwrite");
    return arguments;
  };
  EXPECT_EQ(run(replacing({"epochs=2"}, "first/checkpoints/step-000005")).exit, 0);
  EXPECT_EQ(hash("other"), hash("first"));
  EXPECT_EQ(last_metrics("other")["epoch"], 2);
  EXPECT_FALSE(exists("other/checkpoints/step-000015")) << "the run that was replaced is gone";
  EXPECT_EQ(run(replacing({"epochs=2"}, "first")).exit, 0) << "also where nothing is left to train";
  EXPECT_EQ(hash("other"), hash("first"));

  const std::string metrics = text("other/metrics.jsonl"), weights = hash("other");
  for (const char* own : {"", "other", "./other/checkpoints/step-000010/"})
    expect_failed(run(replacing({"epochs=3"}, own)), 64,
                  {"--overwrite would remove the run that --resume goes on with in other"});
  EXPECT_EQ(text("other/metrics.jsonl"), metrics);
  EXPECT_EQ(hash("other"), weights);
}

TEST_F(ResumeTest, CheckpointsOfALaterStepArePutAside) {
  train("run", {"epochs=4"});
  const auto earlier =
      run(resuming("run", {"epochs=4", "learning_rate=0.01", "checkpoint.keep=2", "steps=11", "epochs="},
                   "run/checkpoints/step-000010"));
  EXPECT_EQ(earlier.exit, 0) << earlier.err;
  EXPECT_NE(earlier.err.find("dptrain: warning: run/checkpoints/step-000020 is of a later step than 10; renamed to "
                             "step-000020.aside\n"),
            std::string::npos)
      << earlier.err;
  EXPECT_TRUE(std::filesystem::exists(path("run/checkpoints/step-000011/manifest.json"))) << "what was just trained";
  EXPECT_TRUE(std::filesystem::exists(path("run/checkpoints/step-000020.aside/model.safetensors")))
      << "nothing is lost";
  EXPECT_NE(text("run/summary.json").find(hash("run")), std::string::npos) << "the weights that this run ended with";
}

TEST_F(ResumeTest, ACheckpointIsEvaluatedAsItsTrainingDid) {
  for (const testing::Arguments& overrides : {testing::Arguments{}, testing::Arguments{"ema=0.9"}}) {
    const std::string out = overrides.empty() ? "plain" : "averaged";
    train(out, overrides);
    const auto test = last_metrics(out)["test"];
    for (const std::string& checkpoint : {out, out + "/checkpoints/step-000005"}) {
      const Finished finished =
          run({"eval", "--config", "digits.yaml", "--checkpoint", checkpoint, "--devices", "cpu:0", "--json"});
      ASSERT_EQ(finished.exit, 0) << finished.err;
      const auto document = nlohmann::json::parse(finished.out);
      EXPECT_EQ(document["loss"], test["loss"]);
      EXPECT_EQ(document["accuracy"], test["accuracy"]);
      EXPECT_EQ(document["samples"], 200);
      EXPECT_FALSE(document.contains("mlm_loss")) << "of images there is one loss";
    }
  }
  const Finished text = run({"eval", "--config", "digits.yaml", "--checkpoint", "plain"});
  EXPECT_NE(text.out.find("of 200 samples"), std::string::npos) << text.out;
  expect_failed(run({"eval", "--config", "digits.yaml", "--checkpoint", "absent"}), 66, {"absent"});
  expect_failed(run({"eval", "--config", "digits.yaml", "--checkpoint", "plain", "--set", "model=resnet18"}), 65,
                {"plain", "conv1", "[64, 1, 3, 3]"});
  EXPECT_EQ(run({"eval", "--config", "digits.yaml"}).exit, 64);
}

TEST_F(ResumeTest, ATrainingMayBeginWithTheAverageOfAnother) {
  train("run", {"ema=0.9"});
  const auto evaluated =
      nlohmann::json::parse(run({"eval", "--config", "digits.yaml", "--checkpoint", "run", "--json"}).out);
  const std::string averaged = evaluated["weights_hash"];
  EXPECT_NE(hash("run"), averaged);
  // This learning rate changes no weight.
  train("next", {"init={from: run, average: true}", "learning_rate=1e-30", "epochs=", "steps=1"});
  EXPECT_EQ(hash("next"), averaged);
  train("own", {"init={from: run}", "learning_rate=1e-30", "epochs=", "steps=1"});
  EXPECT_EQ(hash("own"), hash("run"));
  expect_failed(run(training("other", {"init={from: own, average: true}"})), 65,
                {"model.safetensors", "average.safetensors, got none", "a run with ema"});
  EXPECT_FALSE(exists("other"));
}

TEST_F(ResumeTest, TheAverageOfAModelWithATiedTensorIsEvaluated) {
  const std::vector<std::string> bert = {"model={name: bert, vocab: 80, hidden: 16, layers: 1, heads: 2, seq: 20}",
                                         "dataset={name: synthetic, samples: 24, test_samples: 8}", "ema=0.5",
                                         "batch_size=24"};
  train("bert", bert);
  const auto test = nlohmann::json::parse(text("bert/metrics.jsonl"))["test"];
  testing::Arguments arguments = {"eval", "--config", path("digits.yaml"), "--json", "--checkpoint", path("bert")};
  for (const std::string& override : bert) {
    arguments.emplace_back("--set");
    arguments.emplace_back(override);
  }
  const auto evaluated = run(arguments);
  ASSERT_EQ(evaluated.exit, 0) << evaluated.err;
  EXPECT_EQ(nlohmann::json::parse(evaluated.out)["loss"], test["loss"]);
}

TEST_F(ResumeTest, AnEvaluationOfTextHasTheLossOfEachOutput) {
  const testing::Arguments overrides = {"model={name: bert, vocab: 60, hidden: 16, layers: 1, heads: 2, seq: 24}",
                                        "dataset={name: synthetic, samples: 8, test_samples: 4}", "batch_size=4"};
  train("run", overrides);
  const auto test = last_metrics("run")["test"];
  testing::Arguments evaluation = {"eval", "--config", "digits.yaml", "--checkpoint", "run", "--json"};
  for (const auto& assignment : overrides) evaluation.insert(evaluation.end(), {"--set", assignment});
  const Finished finished = run(evaluation);
  ASSERT_EQ(finished.exit, 0) << finished.err;
  const auto document = nlohmann::json::parse(finished.out);
  for (const char* loss : {"loss", "mlm_loss", "nsp_loss"}) EXPECT_EQ(document[loss], test[loss]) << loss;
  EXPECT_GT(document["nsp_loss"], 0);
}

TEST_F(ResumeTest, AVocabularyThatWasNotLearnedIsRefused) {
  const TextLines lines = testing::small_text();
  std::string text;
  for (int64_t i = 0; i < lines.count(); ++i) text += std::string(lines[i]) + "\n";
  folder_.write("genesis.txt", text);
  folder_.write("longer.txt", text + "And God made two great lights;\n");
  folder_.write("digits.yaml",
                "model: {name: bert, vocab: 60, hidden: 16, layers: 1, heads: 2, seq: 24}\n"
                "dataset: {name: text, files: [genesis.txt]}\n"
                "devices: [cpu:0]\n"
                "batch_size: 4\n"
                "learning_rate: 0.01\n"
                "epochs: 1\n");
  train("run");
  const std::string other = "dataset.files=[longer.txt]";
  expect_failed(run(resuming("run", {other})), 65, {"step-", "vocabulary 60 pieces", "got 60 pieces", "give the data"});
  expect_failed(run(training("warm", {other, "init={from: run}"})), 65,
                {"model.safetensors", "learned the vocabulary"});
  testing::Arguments evaluation = {"eval", "--config", "digits.yaml", "--checkpoint", "run"};
  EXPECT_EQ(run(evaluation).exit, 0);
  evaluation.insert(evaluation.end(), {"--set", other});
  expect_failed(run(evaluation), 65, {"model.safetensors", "learned the vocabulary 60 pieces", "got 60 pieces"});
}

}  // namespace
}  // namespace dptrain
