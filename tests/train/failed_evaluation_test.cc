// A failed evaluation loses no training: its epoch is in a checkpoint, from which the run resumes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/forwarded_images.h"
#include "support/expect_error.h"
#include "support/process.h"
#include "train/experiment_of.h"
#include "train/run_directory.h"

namespace dptrain::train {
namespace {

using testing::expect_error;
using testing::lines_of;
using testing::ScratchFolder;
using testing::text_of;

/// Images that can be read a given number of times. After that, `spoil` decides what happens.
class FewImages final : public testing::ForwardedImages {
 public:
  using Spoil = std::function<void(std::span<float> image)>;
  FewImages(const std::shared_ptr<const Dataset>& images, int64_t reads, Spoil spoil)
      : ForwardedImages(std::dynamic_pointer_cast<const ImageDataset>(images)),
        left_(reads),
        spoil_(std::move(spoil)) {}
  void image(int64_t index, std::span<float> out) const override {
    ForwardedImages::image(index, out);
    if (left_-- <= 0) spoil_(out);
  }

 private:
  mutable std::atomic<int64_t> left_;
  Spoil spoil_;
};

[[noreturn]] void fail(std::span<float>) { throw Error(ExitCode::device, "no memory for an image"); }
void lose(std::span<float> image) { std::ranges::fill(image, std::numeric_limits<float>::quiet_NaN()); }

/// Every epoch reads the 70 test images once.
constexpr int64_t kTestImages = 70;

class FailedEvaluation : public ::testing::Test {
 protected:
  /// Trains from the directory's newest checkpoint; evaluations fail after `evaluations` and a half.
  TrainingOutcome run(const std::vector<std::string>& overrides, std::optional<int64_t> evaluations = {},
                      const FewImages::Spoil& spoil = fail) {
    const Experiment experiment = experiment_of(overrides);
    Datasets data = experiment.dataset.open();
    if (evaluations)
      data.test = std::make_shared<FewImages>(data.test, *evaluations * kTestImages + kTestImages / 2, spoil);
    const StopSignal stop = 0;
    RecordingObserver observer;
    RunDirectory directory(scratch_.path(), EarlierRun::resume);
    Trainer trainer(experiment, data, {}, newest_checkpoint(directory.checkpoints(), {}));
    const TrainingPosition& position = trainer.position();
    directory.go_back_to(position.epochs + (position.reported ? 1 : 0), position.step);
    return trainer.run(directory, observer, stop);
  }
  void expect_fails(const std::vector<std::string>& overrides, int64_t evaluations,
                    std::initializer_list<std::string_view> words) {
    expect_error(ExitCode::device, words, [&] { run(overrides, evaluations); });
  }
  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    for (const auto& folder : checkpoint_folders(scratch_.path() / "checkpoints")) names.push_back(folder.filename());
    return names;
  }
  /// Epoch, test loss and weights of each line of metrics.jsonl.
  std::vector<std::string> metrics() const {
    std::vector<std::string> numbers;
    for (const auto& line : lines_of(text_of(scratch_.path() / "metrics.jsonl"))) {
      const auto epoch = nlohmann::json::parse(line);
      numbers.push_back(nlohmann::json{epoch["epoch"], epoch["train"]["loss"], epoch["train"]["samples"],
                                       epoch["test"]["loss"], epoch["weights_hash"]}
                            .dump());
    }
    return numbers;
  }
  void start_anew() {
    std::filesystem::remove_all(scratch_.path());
    std::filesystem::create_directories(scratch_.path());
  }

  ScratchFolder scratch_;
};

/// Three epochs of three steps; the evaluation of the second epoch fails.
TEST_F(FailedEvaluation, CostsNoEpochUnderAnyStrategy) {
  for (const std::string strategy : {"single", "data_parallel", "ddp", "kvstore", "model_parallel"}) {
    SCOPED_TRACE(strategy);
    const std::vector<std::string> overrides = {
        "epochs=3", "ema=0.5", "optimizer={name: sgd, momentum: 0.9}",
        strategy == "model_parallel" ? "strategy={name: model_parallel, micro_batches: 2}" : "strategy=" + strategy,
        strategy == "single" ? "devices=[cpu:0]" : "devices=[cpu:0, cpu:1]"};
    start_anew();
    const TrainingOutcome whole = run(overrides);
    const auto expected = metrics();
    ASSERT_EQ(expected.size(), 3u);

    start_anew();
    expect_fails(overrides, 1,
                 {"evaluation: no memory for an image; epoch 2 is saved in ", "step-000006, and --resume"});
    EXPECT_EQ(checkpoints(), (std::vector<std::string>{"step-000003", "step-000006"}));
    EXPECT_EQ(metrics(), std::vector<std::string>(expected.begin(), expected.begin() + 1));
    // Resumes from there twice: nothing is trained twice, and nothing is lost.
    expect_fails(overrides, 0, {"no memory for an image; epoch 2 is saved in ", "step-000006"});
    const TrainingOutcome resumed = run(overrides);
    EXPECT_EQ(resumed.weights_hash, whole.weights_hash);
    EXPECT_EQ(metrics(), expected);
  }
}

TEST_F(FailedEvaluation, OfTheLastEpochIsMadeByAResumedTraining) {
  for (const std::vector<std::string>& length :
       {std::vector<std::string>{"epochs=1"}, std::vector<std::string>{"epochs=", "steps=2"}}) {
    for (const std::string checkpoints_after : {"checkpoint.every_epochs=1", "checkpoint.every_epochs=0"}) {
      std::vector<std::string> overrides = length;
      overrides.push_back(checkpoints_after);
      SCOPED_TRACE(length.back() + ", " + checkpoints_after);
      start_anew();
      const TrainingOutcome whole = run(overrides);
      const auto expected = metrics();
      start_anew();
      expect_fails(overrides, 0, {"epoch 1 is saved in "});
      EXPECT_EQ(metrics(), std::vector<std::string>());
      EXPECT_EQ(run(overrides).weights_hash, whole.weights_hash);
      EXPECT_EQ(metrics(), expected);
    }
  }
}

/// This epoch has no checkpoint, and the message doesn't claim one.
TEST_F(FailedEvaluation, BetweenCheckpointsGoesBackToTheOneBefore) {
  const std::vector<std::string> overrides = {"epochs=4", "checkpoint={every_epochs: 2}"};
  const TrainingOutcome whole = run(overrides);
  const auto expected = metrics();
  start_anew();
  try {
    run(overrides, 2);
    FAIL() << "the third evaluation was to fail";
  } catch (const Error& error) {
    EXPECT_EQ(std::string_view(error.what()).find("--resume"), std::string_view::npos) << error.what();
  }
  EXPECT_EQ(checkpoints(), std::vector<std::string>{"step-000006"});
  EXPECT_EQ(run(overrides).weights_hash, whole.weights_hash);
  EXPECT_EQ(metrics(), expected);
}

/// With another learning rate a diverged run resumes from its last good weights.
TEST_F(FailedEvaluation, ThatIsNotFiniteLeavesTheCheckpointBefore) {
  const std::vector<std::string> overrides = {"epochs=2"};
  expect_error(ExitCode::diverged, {"step 6, epoch 2", "training diverged"}, [&] { run(overrides, 1, lose); });
  EXPECT_EQ(checkpoints(), std::vector<std::string>{"step-000003"});
  EXPECT_EQ(run(overrides).epochs, 2);
  EXPECT_EQ(metrics().size(), 2u);
}

/// The weights are written before the evaluation, and not again after it.
TEST_F(FailedEvaluation, CostsNoSecondWritingOfTheWeights) {
  const auto weights = scratch_.path() / "checkpoints/step-000003/model.safetensors";
  const auto number_of = [&] {
    struct stat file {};
    return ::stat(weights.c_str(), &file) == 0 ? file.st_ino : 0;
  };
  std::atomic<ino_t> evaluated = 0;
  run({"epochs=1"}, 0, [&](std::span<float>) { evaluated = number_of(); });
  EXPECT_NE(evaluated, 0u);
  EXPECT_EQ(evaluated, number_of());
}

/// A process that is killed between the metrics line and the checkpoint that includes it leaves files like these.
TEST_F(FailedEvaluation, ALineThatTheCheckpointDoesNotKnowOfIsWrittenAnew) {
  const std::vector<std::string> overrides = {"epochs=2"};
  run(overrides);
  const auto expected = metrics();
  start_anew();
  expect_fails(overrides, 1, {"epoch 2 is saved in "});
  std::ofstream(scratch_.path() / "metrics.jsonl", std::ios::app) << R"({"epoch": 2, "step": 6})"
                                                                  << "\n";
  run(overrides);
  EXPECT_EQ(metrics(), expected);
}

TEST_F(FailedEvaluation, AManifestThatWasHalfWrittenIsRemoved) {
  run({"epochs=1"});
  const auto folder = scratch_.path() / "checkpoints/step-000003";
  std::ofstream(folder / "manifest.json.tmp-123") << "{";
  remove_unfinished_checkpoints(scratch_.path() / "checkpoints");
  EXPECT_FALSE(std::filesystem::exists(folder / "manifest.json.tmp-123"));
  EXPECT_NO_THROW(read_checkpoint(folder));
}

}  // namespace
}  // namespace dptrain::train
