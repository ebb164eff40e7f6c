// Runs that begin with all or some of a file's weights.

#include "train/initial_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "support/expect_error.h"
#include "support/process.h"
#include "train/experiment_of.h"
#include "train/run_directory.h"
#include "train/safetensors.h"

namespace dptrain::train {
namespace {

using testing::expect_error;
using testing::ScratchFolder;

using Overrides = std::vector<std::string>;
using Values = std::map<std::string, std::vector<float>>;

/// A learning rate that changes only zeros.
const Overrides kStill = {"learning_rate=1e-30", "steps=1", "epochs=", "eval_every=0", "seed=3"};

bool alike(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return std::abs(x - y) < 1e-20f; });
}

class InitialWeightsTest : public ::testing::Test {
 protected:
  /// The file with the final weights of a run with these overrides.
  std::filesystem::path trained(const Overrides& overrides) {
    const Experiment experiment = experiment_of(overrides);
    StopSignal stop = 0;
    RecordingObserver observer(&stop);
    RunDirectory directory(scratch_.path() / std::to_string(++runs_), EarlierRun::refuse);
    return Trainer(experiment, experiment.dataset.open()).run(directory, observer, stop).weights;
  }
  static Overrides with(Overrides overrides, const Overrides& more) {
    overrides.insert(overrides.end(), more.begin(), more.end());
    return overrides;
  }
  std::string from(const std::string& more = {}) const { return "init={from: " + first_.string() + more + "}"; }
  static Values values_of(const std::filesystem::path& weights) {
    Values values;
    for (auto& tensor : read_safetensors(weights)) values[tensor.name] = std::move(tensor.values);
    return values;
  }
  /// Each tensor of `got` must be the file's or a newly drawn one; returns the names of the drawn ones.
  static std::vector<std::string> drawn_of(const Values& got, const Values& file, const Values& drawn) {
    std::vector<std::string> names;
    for (const auto& [name, values] : got) {
      if (file.contains(name) && alike(values, file.at(name))) continue;
      EXPECT_TRUE(alike(values, drawn.at(name))) << name;
      names.push_back(name);
    }
    return names;
  }

  ScratchFolder scratch_;
  int runs_ = 0;
  std::filesystem::path first_ = trained({"epochs=1"});
};

TEST_F(InitialWeightsTest, OfAFileBeginAnotherTraining) {
  EXPECT_TRUE(drawn_of(values_of(trained(with(kStill, {from()}))), values_of(first_), {}).empty());
  EXPECT_NE(values_of(trained({"epochs=1", from()})), values_of(first_));
}

TEST_F(InitialWeightsTest, ExceptLeavesTensorsAsTheyAreDrawn) {
  const Values file = values_of(first_), drawn = values_of(trained(kStill));
  const auto beginning = [&](const std::string& except, const Overrides& more = {}) {
    return drawn_of(values_of(trained(with(with(kStill, {from(", except: " + except)}), more))), file, drawn);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(beginning("[fc2]"), (Names{"fc2.bias", "fc2.weight"}));
  EXPECT_EQ(beginning("[conv1.bias, fc1]"), (Names{"conv1.bias", "fc1.bias", "fc1.weight"}));
  EXPECT_EQ(beginning("fc2.weight"), (Names{"fc2.weight"}));
  EXPECT_EQ(beginning("[fc2]", {"strategy={name: model_parallel, stages: [2, 1]}"}), (Names{"fc2.bias", "fc2.weight"}));
}

TEST_F(InitialWeightsTest, WhatIsDrawnMayHaveAnotherShapeOrName) {
  // Three classes instead of ten.
  const Overrides three = with(kStill, {"dataset.classes=3"});
  const Values file = values_of(first_), drawn = values_of(trained(three));
  EXPECT_EQ(drawn_of(values_of(trained(with(three, {from(", except: [fc2]")}))), file, drawn),
            (std::vector<std::string>{"fc2.bias", "fc2.weight"}));
  expect_error(ExitCode::bad_data, {"model.safetensors: fc2.weight: expected [3, 128], got [10, 128]", "init.except"},
               [&] { trained(with(three, {from()})); });
  // The model's last layer has another name, so both names are left out.
  const Overrides renamed =
      with(kStill, {"model={layers: [conv: {channels: 20, kernel: 5, name: conv1}, max_pool: 2, conv: {channels: 50, "
                    "kernel: 5, name: conv2}, max_pool: 2, flatten, linear: {features: 128, name: fc1}, relu, linear: "
                    "{features: classes, name: top}]}"});
  const Values other = values_of(trained(renamed));
  EXPECT_EQ(drawn_of(values_of(trained(with(renamed, {from(", except: [fc2, top]")}))), file, other),
            (std::vector<std::string>{"top.bias", "top.weight"}));
}

TEST_F(InitialWeightsTest, TiedTensorsAreDrawnTogether) {
  const Overrides bert = {"model={name: bert, hidden: 8, layers: 1, heads: 2, seq: 8, vocab: 20}",
                          "dataset={name: synthetic, samples: 16, test_samples: 8}"};
  first_ = trained(with(bert, {"steps=2", "epochs=", "eval_every=0"}));
  const Values file = values_of(first_), drawn = values_of(trained(with(kStill, bert)));
  for (const std::string name : {"bert.embeddings.word_embeddings", "cls.predictions.decoder.weight"}) {
    const auto got =
        drawn_of(values_of(trained(with(with(kStill, bert), {from(", except: [" + name + "]")}))), file, drawn);
    EXPECT_TRUE(std::ranges::count(got, "bert.embeddings.word_embeddings.weight")) << name;
    EXPECT_TRUE(std::ranges::count(got, "cls.predictions.decoder.weight")) << name;
  }
}

TEST_F(InitialWeightsTest, OfWhichTheFrozenOnesStay) {
  const Values file = values_of(first_);
  const Values tuned = values_of(trained({from(", except: [fc2]"), "freeze=[conv1, conv2, fc1.weight]"}));
  for (const char* name : {"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight"})
    EXPECT_EQ(tuned.at(name), file.at(name)) << name;
  for (const char* name : {"fc1.bias", "fc2.weight", "fc2.bias"}) EXPECT_NE(tuned.at(name), file.at(name)) << name;
}

TEST_F(InitialWeightsTest, OfAnotherModelAreRefused) {
  expect_error(ExitCode::bad_data, {"model.safetensors", "conv1.weight", "[64, 1, 3, 3]", "[20, 1, 5, 5]"}, [&] {
    trained({"model=resnet18", from()});
  });
  expect_error(ExitCode::bad_data,
               {"first.weight: expected a tensor of [10, 256], got none of that name; use the model and options that "
                "it was made with, or list the tensors to be drawn in init.except; it has conv1.bias, conv1.weight, "
                "conv2.bias, conv2.weight and 4 more"},
               [&] {
                 trained({"model={layers: [flatten, linear: {features: classes, name: first}]}", from()});
               });
  expect_error(ExitCode::missing_file, {"absent", "nothing there"},
               [&] { trained({"init={from: " + (scratch_.path() / "absent").string() + "}"}); });
  expect_error(ExitCode::config,
               {"init.except: expected names of the model's tensors or of its modules, got 'fcl'; did "
                "you mean 'fc1'?"},
               [&] { trained({from(", except: [fc2, fcl]")}); });
}

}  // namespace
}  // namespace dptrain::train
