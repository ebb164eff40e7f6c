// Weights go to PyTorch and back. PyTorch's side is recorded in tests/golden: a file that it wrote, how it continued
// training from that file, and what it computed from one of our checkpoints.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "golden/golden_trace.h"
#include "golden/text_batch.h"
#include "models/model_registry.h"
#include "support/formula_tensor.h"
#include "support/process.h"
#include "support/source_tree.h"
#include "support/test_device.h"
#include "train/experiment_of.h"
#include "train/safetensors.h"

namespace dptrain::train {
namespace {

using namespace testing;

json recorded(const std::string& file) { return json::parse(text_of(source_file("tests/" + file))); }

/// The experiment as a separate run.
class Training {
 public:
  explicit Training(const std::vector<std::string>& overrides)
      : experiment_(experiment_of(overrides)), trainer_(experiment_, experiment_.dataset.open()) {}

  Pass evaluate() { return trainer_.evaluate(); }
  TrainingOutcome run() {
    RunDirectory directory(scratch_.path(), EarlierRun::refuse);
    RecordingObserver observer;
    const StopSignal stop = 0;
    return trainer_.run(directory, observer, stop);
  }

 private:
  Experiment experiment_;
  ScratchFolder scratch_;
  Trainer trainer_;
};

/// Compares float32 with PyTorch's double precision. A loss has rounding errors of 1e-7 in each of a few dozen
/// operations. Training moves this loss by 3e-3 of its value, so a different update would be far outside.
void expect_same(const Pass& pass, const json& pytorch) {
  EXPECT_NEAR(pass.score.mean_loss(), pytorch["loss"], 1e-5 * pytorch["loss"].get<double>());
  EXPECT_EQ(pass.score.accuracy(), pytorch["accuracy"].get<double>());
}

// The file includes PyTorch's batch counts, as 64-bit integers.
TEST(PyTorchFiles, ATrainingBegunFromOneGoesOnAsPyTorchs) {
  const json pytorch = recorded("golden/pytorch/small_net.json");
  Training training(
      {"model={layers: [conv: {channels: 6, kernel: 5, stride: 2}, batch_norm, relu, global_avg_pool, linear: "
       "classes]}",
       "dataset={name: mnist, limit: 320, test_limit: 200, shuffle: false}", "devices=[cpu:0]", "batch_size=64",
       "learning_rate=0.5", "optimizer={name: sgd, momentum: 0.9}", "epochs=1",
       "init={from: " + source_file("tests/golden/pytorch/small_net.safetensors") + "}"});
  expect_same(training.evaluate(), pytorch["before"]);
  const TrainingOutcome outcome = training.run();
  ASSERT_TRUE(outcome.last_epoch && outcome.last_epoch->test);
  expect_same(*outcome.last_epoch->test, pytorch["after"]);
}

// lenet.json records what PyTorch computed from this very checkpoint with load_state_dict(strict=True); we compute the
// same.
TEST(PyTorchFiles, PyTorchComputesTheSameFromOurs) {
  const json pytorch = recorded("golden/pytorch/lenet.json");
  // The learning rate changes nothing: the weights are the initial ones, bit-identical on every machine.
  Training training({"dataset={name: synthetic, samples: 8, test_samples: 4}", "devices=[cpu:0]", "batch_size=8",
                     "learning_rate=1e-30", "epochs=", "steps=1"});
  const TrainingOutcome outcome = training.run();
  ASSERT_EQ(outcome.weights_hash, pytorch["weights_hash"].get<std::string>());

  const auto device = test_device();
  const auto model = models::find_model("lenet").build({.device = *device}, {.image = {1, 28, 28}, .classes = 10});
  model->place(*device, {});
  nn::load_state_dict(*model, read_safetensors(outcome.weights));
  Tape tape(Tape::Mode::forget);
  const Tensor images = Tensor::from(*device, {4, 1, 28, 28}, formula_images(1, 4 * 784));
  const std::vector<float> logits = model->forward(tape.input(images), {.tape = tape}).value().values();
  // Both sides are float32, and add up to 800 products in different orders.
  expect_tensor(pytorch["logits"], logits, 1e-5, 0);
}

struct RecordedModel {
  const char* file;  ///< the file's name in tests/golden/pytorch, without extension
  models::ModelInput input = {};
};
std::ostream& operator<<(std::ostream& out, const RecordedModel& model) { return out << model.file; }

/// The weights of a file, and what PyTorch computed with them. Some are of our runs; convert_pytorch.py to-pytorch
/// loaded these with strict=True. The others are PyTorch's initial weights, which its from-pytorch wrote.
class RecordedModels : public ::testing::TestWithParam<RecordedModel> {
 protected:
  RecordedModels() {
    json named = pytorch_["options"];
    named["name"] = pytorch_["model"];
    model_ = experiment_of({"model=" + named.dump(), "dataset={name: synthetic}"})
                 .model.build({.device = *device_}, GetParam().input);
    model_->place(*device_, {});
    nn::load_state_dict(*model_, read_safetensors(file_));
  }
  /// The model's outputs in evaluation for the batch of 4 by the formula with seed 1.
  std::vector<std::vector<float>> outputs() {
    Tape tape(Tape::Mode::forget);
    std::vector<Variable> outputs;
    if (const auto& sizes = GetParam().input.text) {
      const TextFormulaBatch batch = text_by_formula(
          *device_, {.samples = 4, .length = sizes->sequence, .vocabulary = static_cast<uint64_t>(sizes->vocabulary)},
          1);
      outputs = model_->outputs(tape.input(batch.tokens), {.tape = tape, .text = batch.inputs});
    } else {
      const Shape& image = GetParam().input.image;
      const Tensor images =
          Tensor::from(*device_, {4, image[0], image[1], image[2]}, formula_images(1, 4 * image.elements()));
      outputs = {model_->forward(tape.input(images), {.tape = tape})};
    }
    std::vector<std::vector<float>> values;
    for (const Variable& output : outputs) values.push_back(output.value().values());
    return values;
  }

  const std::string file_ = source_file("tests/golden/pytorch/") + GetParam().file + ".safetensors";
  const json pytorch_ = recorded(std::string("golden/pytorch/") + GetParam().file + ".json");
  const std::unique_ptr<Device> device_ = test_device();
  std::unique_ptr<nn::Model> model_;
};

TEST_P(RecordedModels, ComputeWhatPyTorchDid) {
  EXPECT_EQ(weights_hash(nn::state_dict(*model_)), pytorch_["weights_hash"].get<std::string>());
  const auto found = outputs();
  // Both sides are float32.
  expect_tensor(pytorch_["logits"], found[0], 1e-5, 0);
  ASSERT_EQ(found.size() == 2, pytorch_.contains("next_sentence"));
  if (found.size() == 2) expect_tensor(pytorch_["next_sentence"], found[1], 1e-5, 0);
}

class RecordedCheckpoints : public RecordedModels {};

// A checkpoint that we write today is byte for byte the file that PyTorch was given.
TEST_P(RecordedCheckpoints, AreWrittenAsTheyWere) {
  const ScratchFolder scratch;
  write_safetensors(scratch.path() / "model", nn::state_dict(*model_));
  EXPECT_TRUE(text_of(scratch.path() / "model") == text_of(file_));
}

const models::ModelInput kSmallImages{.image = {3, 32, 32}};
const models::ModelInput kSmallText{.text = models::TextSizes{64, 16}};

INSTANTIATE_TEST_SUITE_P(BothWays, RecordedModels,
                         ::testing::Values(RecordedModel{"pyramidnet_ours", kSmallImages},
                                           RecordedModel{"pyramidnet_theirs", kSmallImages},
                                           RecordedModel{"bert_ours", kSmallText},
                                           RecordedModel{"bert_theirs", kSmallText}),
                         [](const auto& test) { return std::string(test.param.file); });

INSTANTIATE_TEST_SUITE_P(ToPyTorch, RecordedCheckpoints,
                         ::testing::Values(RecordedModel{"pyramidnet_ours", kSmallImages},
                                           RecordedModel{"bert_ours", kSmallText}),
                         [](const auto& test) { return std::string(test.param.file); });

// The model that from-pytorch converted from PyTorch's initial weights learns the images.
TEST(PyTorchFiles, AModelThatPyTorchHasBegunIsTrained) {
  const json pytorch = recorded("golden/pytorch/pyramidnet_theirs.json");
  json model = pytorch["options"];
  model["name"] = "pyramidnet";
  Training training({"model=" + model.dump(), "dataset={name: synthetic, samples: 64, shape: [3, 32, 32]}",
                     "devices=[cpu:0]", "batch_size=16", "learning_rate=0.005", "optimizer=adam", "epochs=10",
                     "init={from: " + source_file("tests/golden/pytorch/pyramidnet_theirs.safetensors") + "}"});
  const TrainingOutcome outcome = training.run();
  ASSERT_TRUE(outcome.last_epoch);
  EXPECT_LT(outcome.last_epoch->train.score.mean_loss(), 0.7 * std::log(10)) << "chance is log(10)";
}

struct StoredModel {
  const char* name;
  models::ModelInput input;
};
std::ostream& operator<<(std::ostream& out, const StoredModel& model) { return out << model.name; }

class StoredModels : public ::testing::TestWithParam<StoredModel> {};

// Reads the header itself, as PyTorch does, without our reader.
TEST_P(StoredModels, HaveThePartsOfPyTorchsStateAsFloats) {
  const auto device = test_device();
  const auto model = experiment_of({std::string("model=") + GetParam().name, "dataset={name: synthetic}"})
                         .model.build({.device = *device}, GetParam().input);
  model->place(*device, {});
  const ScratchFolder scratch;
  write_safetensors(scratch.path() / "model", nn::state_dict(*model));
  const std::string file = text_of(scratch.path() / "model");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  json header = json::parse(file.substr(sizeof header_bytes, header_bytes));
  header.erase("__metadata__");

  const json pytorch = recorded("models/state_names.json").at(GetParam().name).at("tensors");
  EXPECT_EQ(header.size(), pytorch.size());
  for (const auto& [name, shape] : pytorch.items()) {
    ASSERT_TRUE(header.contains(name)) << name;
    EXPECT_EQ(header[name]["shape"], shape) << name;
    EXPECT_EQ(header[name]["dtype"], "F32") << name;
  }
}

INSTANTIATE_TEST_SUITE_P(ByName, StoredModels,
                         ::testing::Values(StoredModel{"lenet", {.image = {1, 28, 28}}},
                                           StoredModel{"resnet18", {.image = {1, 28, 28}}},
                                           StoredModel{"pyramidnet", {.image = {3, 32, 32}}},
                                           StoredModel{"bert", {.text = models::TextSizes{8000, 163}}}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace dptrain::train
