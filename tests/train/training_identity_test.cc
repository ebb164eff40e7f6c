// A run resumes only as what it was, and weights are used only by the model that learned them. A text model that
// resumes, is evaluated or begins from weights uses the vocabulary that they have learned, or is refused.
#include "train/training_identity.h"

#include <gtest/gtest.h>

#include "data/small_text.h"
#include "support/expect_error.h"
#include "support/idx_files.h"
#include "support/process.h"
#include "train/experiment_of.h"
#include "train/run_directory.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;

using testing::expect_error;
using testing::ScratchFolder;

/// A folder with a text, the vocabularies that are stored for it, and a run of a small BERT on it.
class TrainingIdentityOfText : public ::testing::Test {
 protected:
  TrainingIdentityOfText() {
    const TextLines lines = testing::small_text();
    std::string text;
    for (int64_t i = 0; i < lines.count(); ++i) text += std::string(lines[i]) + "\n";
    folder_.write("genesis.txt", text);
    // As many lines and pieces, some of which are different.
    std::string other = text;
    for (const auto& [from, to] : {std::pair("heaven", "sphere"), std::pair("waters", "oceans")})
      for (size_t at = 0; (at = other.find(from, at)) != std::string::npos;) other.replace(at, 6, to);
    folder_.write("other.txt", other);
  }

  Experiment experiment(const std::string& text = "genesis.txt", int pieces = 60, const std::string& init = {}) const {
    const std::string files = (folder_.path() / text).string(), size = std::to_string(pieces);
    std::vector<std::string> overrides = {
        "model={name: bert, vocab: " + size + ", hidden: 16, layers: 1, heads: 2, seq: 24}",
        "dataset={name: text, files: [" + files + "], test_share: 0.4}", "devices=[cpu:0]", "batch_size=4", "epochs=1"};
    if (!init.empty()) overrides.push_back("init={from: " + init + "}");
    return experiment_of(overrides);
  }
  fs::path run() const { return folder_.path() / "run"; }
  /// Trains from the newest checkpoint of `run()`, if it has one.
  void train(const Experiment& experiment) const {
    RunDirectory directory(run(), EarlierRun::resume);
    Trainer trainer(experiment, experiment.dataset.open(), {},
                    newest_checkpoint(directory.checkpoints(), [](const std::string& what) { ADD_FAILURE() << what; }));
    RecordingObserver observer;
    trainer.run(directory, observer, StopSignal(0));
  }
  void require_vocabulary_of_run(const Experiment& experiment) const {
    require_same_vocabulary(*experiment.dataset.open().train, find_weights(run()));
  }
  fs::path vocabulary_of(const std::string& text) const {
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename();
      if (name.starts_with(text + ".60.") && name.ends_with(".vocabulary")) return entry.path();
    }
    ADD_FAILURE() << "no vocabulary of " << text;
    return {};
  }

  ScratchFolder folder_;
};

TEST_F(TrainingIdentityOfText, AVocabularyOfAnotherSizeIsRefused) {
  train(experiment());
  expect_error(ExitCode::bad_data,
               {"run/checkpoints/step-000002: expected a run with vocabulary 62 pieces ", ", got 60 pieces ",
                "; give the data set the text and the vocabulary that it was trained with, or leave out --resume"},
               [&] { train(experiment("genesis.txt", 62)); });
  expect_error(ExitCode::bad_data,
               {"step-000002/model.safetensors: expected weights that have learned the vocabulary 62 pieces ",
                ", got 60 pieces ", "; give the data set the text and the vocabulary"},
               [&] { require_vocabulary_of_run(experiment("genesis.txt", 62)); });
  EXPECT_NO_THROW(train(experiment()));
  EXPECT_NO_THROW(require_vocabulary_of_run(experiment()));
}

TEST_F(TrainingIdentityOfText, AVocabularyOfOtherPiecesIsRefused) {
  train(experiment());
  expect_error(ExitCode::bad_data, {"vocabulary 60 pieces ", "got 60 pieces "},
               [&] { train(experiment("other.txt")); });
  // As if the file had been made from another text.
  fs::rename(vocabulary_of("other"), vocabulary_of("genesis"));
  expect_error(ExitCode::bad_data, {"vocabulary 60 pieces ", "got 60 pieces "}, [&] { train(experiment()); });
}

TEST_F(TrainingIdentityOfText, WeightsOfAnotherVocabularyBeginNoTraining) {
  train(experiment());
  const auto begin = [&](const std::string& text, const std::string& from) {
    const Experiment warm = experiment(text, 60, from);
    Trainer(warm, warm.dataset.open());
  };
  EXPECT_NO_THROW(begin("genesis.txt", run()));
  for (const fs::path& from : {run(), run() / "checkpoints/step-000002/model.safetensors"})
    expect_error(ExitCode::bad_data, {"learned the vocabulary 60 pieces ", "got 60 pieces "},
                 [&] { begin("other.txt", from); });
}

TEST_F(TrainingIdentityOfText, WeightsWithoutAManifestAreNotCompared) {
  train(experiment());
  fs::copy(run() / "checkpoints/step-000002/model.safetensors", folder_.path());
  EXPECT_NO_THROW(
      require_same_vocabulary(*experiment("other.txt").dataset.open().train, folder_.path() / "model.safetensors"));
}

TEST_F(TrainingIdentityOfText, WeightsOfAnotherFunctionAreRefused) {
  train(experiment());
  const auto weights = find_weights(run());
  models::ModelSpec model = experiment().model;
  EXPECT_NO_THROW(require_same_model(model, weights));
  const auto heads = std::ranges::find(model.options, "heads", &ResolvedOptions::value_type::first);
  ASSERT_NE(heads, model.options.end());
  heads->second = "8";
  expect_error(
      ExitCode::bad_data,
      {"model.safetensors: expected weights that were trained with model.heads 8, got 2; set the value that they were"},
      [&] { require_same_model(model, weights); });
  fs::copy(weights, folder_.path());
  EXPECT_NO_THROW(require_same_model(model, folder_.path() / "model.safetensors")) << "nothing is known of it";
  model.name = "another";
  EXPECT_NO_THROW(require_same_model(model, weights)) << "its tensors tell";
  model = experiment().model;
  model.options.emplace_back("later", "1");
  EXPECT_NO_THROW(require_same_model(model, weights)) << "an option that came after the checkpoint";
}

/// The folder of the samples and their number aren't part of the data set's identity; counts have a name of their own.
TEST(TrainingIdentity, NamesOptionsButNeitherPlacesNorCounts) {
  const Experiment experiment = experiment_of(
      {"model={name: layers, layers: [flatten, linear: classes]}", "dataset.limit=30", "dataset.test_limit=20"});
  std::vector<std::string> names;
  for (const auto& [name, value] : identity_of(experiment, *experiment.dataset.open().train)) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"model", "dataset", "model.layers", "dataset.classes", "dataset.shape",
                                      "dataset.normalize", "dataset.shuffle", "dataset.partition", "validation.samples",
                                      "samples", "batch_size", "accumulate", "seed", "optimizer", "freeze"}));
}

/// A checkpoint from before `linear` had a bias option, or `batch_norm` an epsilon, counts as one with their defaults.
TEST(TrainingIdentity, OfLayersIsWhatTheyMeanNow) {
  const Experiment experiment =
      experiment_of({"model={name: layers, layers: [flatten, linear: 5, batch_norm, linear: classes]}"});
  const TrainingIdentity own = identity_of(experiment, *experiment.dataset.open().train);
  const auto require = [&](const std::string& layers) {
    ResumePoint resume{.checkpoint = {}, .folder = "step-000002"};
    resume.checkpoint.identity = own;
    std::ranges::find(resume.checkpoint.identity, "model.layers", &TrainingIdentity::value_type::first)->second =
        layers;
    require_same_training(own, resume);
  };
  EXPECT_NO_THROW(require(
      "[flatten, linear: {features: 5, init: default}, batch_norm, linear: {features: classes, init: default}]"));
  expect_error(
      ExitCode::bad_data,
      {"step-000002: expected a run with model.layers batch_norm: {eps: 1.0e-05, momentum: 0.1} for layer 2 of 4, "
       "got batch_norm: {eps: 0.5, momentum: 0.1} for layer 2 of 4; set the value that"},
      [&] { require("[flatten, linear: 5, batch_norm: {eps: 0.5}, linear: classes]"); });
  expect_error(ExitCode::bad_data, {"bias: false"},
               [&] { require("[flatten, linear: {features: 5, bias: false}, batch_norm, linear: classes]"); });
  expect_error(ExitCode::bad_data,
               {"expected a run with model.layers flatten for layer 0 of 4", "got gone for layer 0 of 1"},
               [&] { require("[gone]"); });
  for (const std::string damaged : {"", "]", "[]"})
    expect_error(ExitCode::bad_data, {"flatten for layer 0 of 4, got none for layer 0 of 0"},
                 [&] { require(damaged); });
}

/// Each process's part of the data is in proportion to its part of the batches.
TEST(TrainingIdentity, OfPartsOfTheDataSaysHowBatchesAreShared) {
  const auto order = [](std::vector<std::string> overrides) {
    const ConfigJob job{.processes = 2, .exchange_devices = [](const std::vector<DeviceId>&) {
                          return std::vector(2, std::vector<DeviceId>(2));
                        }};
    overrides.insert(overrides.end(), {"batch_size=24", "dataset.partition=by_process"});
    const Experiment experiment = experiment_of(overrides, job);
    for (const auto& [name, value] : identity_of(experiment, *experiment.dataset.open().train))
      if (name == "dataset.partition") return value;
    return std::string();
  };
  const std::string even = "by processes of 2, 2 devices";
  EXPECT_EQ(order({"split=[1, 1, 1, 1]"}), even) << "whatever its weights";
  EXPECT_EQ(order({"split=[1, 1, 2, 0]"}), even + ", split 1000000 : 1000000 : 2000000 : 0");
  EXPECT_EQ(order({"split=auto"}), even + ", split: auto");
  EXPECT_EQ(order({"shards=8"}), even + ", shards: 8");
  EXPECT_EQ(order({"accumulate=2"}), even + ", 2 micro-batches");
  EXPECT_EQ(order({"strategy={name: hybrid, model_parallel: 2, micro_batches: 3}"}),
            even + ", replicas of 2 devices, 3 micro-batches");
}

/// Images have no vocabulary, and neither have synthetic tokens.
TEST(TrainingIdentity, NamesAVocabularyWhereThereIsOne) {
  const auto names_one = [](const Experiment& experiment) {
    const auto identity = identity_of(experiment, *experiment.dataset.open().train);
    return std::ranges::count(identity, "vocabulary", &TrainingIdentity::value_type::first) == 1;
  };
  EXPECT_FALSE(names_one(experiment_of()));
  EXPECT_FALSE(names_one(experiment_of({"model={name: bert, vocab: 80, hidden: 16, layers: 1, heads: 2, seq: 24}",
                                        "dataset={name: synthetic, samples: 40, test_samples: 10}"})));
}

}  // namespace
}  // namespace dptrain::train
