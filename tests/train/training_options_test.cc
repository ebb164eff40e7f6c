// Keys whose effect no other test shows: the learning rate's schedule, initializers, smoothed labels, the convolutions'
// algorithm.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "device/cpu_isa.h"
#include "support/process.h"
#include "train/experiment_of.h"
#include "train/safetensors.h"
#include "train/strategy_context.h"

namespace dptrain::train {
namespace {

using testing::lines_of;
using testing::text_of;

class TrainingOptions : public ::testing::Test {
 protected:
  TrainingOutcome run(const std::vector<std::string>& overrides) {
    const Experiment experiment = experiment_of(overrides);
    const StopSignal stop = 0;
    observer_ = std::make_unique<RecordingObserver>();
    run_ = scratch_.path() / std::to_string(++runs_);
    directory_ = std::make_unique<RunDirectory>(run_, EarlierRun::overwrite);
    return Trainer(experiment, experiment.dataset.open()).run(*directory_, *observer_, stop);
  }
  std::vector<double> rates(const char* file) const {
    std::vector<double> values;
    for (const std::string& line : lines_of(text_of(run_ / file)))
      values.push_back(nlohmann::json::parse(line)["learning_rate"]);
    return values;
  }

  testing::ScratchFolder scratch_;
  int runs_ = 0;
  std::filesystem::path run_;
  std::unique_ptr<RecordingObserver> observer_;
  std::unique_ptr<RunDirectory> directory_;
};

/// The rate of 0.1 is for batches of half of these 16 samples. Of six steps two warm up, and four follow the cosine.
TEST_F(TrainingOptions, TheRateOfEveryStepFollowsScheduleWarmUpAndRule) {
  std::vector<double> expected = {0.1, 0.2};
  for (const int step : {0, 1, 2, 3}) expected.push_back(0.1 * (1 + std::cos(std::numbers::pi * step / 4)));
  const std::vector<std::string> scheduled = {"learning_rate=0.1", "lr_rule={name: linear, reference_batch_size: 8}",
                                              "schedule={name: cosine, warmup_steps: 2}", "log_steps=true"};
  const auto with = [&](std::vector<std::string> length) {
    length.insert(length.end(), scheduled.begin(), scheduled.end());
    return length;
  };
  std::string hash;
  for (const auto& length : {with({"epochs=2"}), with({"epochs=", "steps=6"}), with({"epochs=2", "accumulate=2"})}) {
    SCOPED_TRACE(length[0] + " " + length[1]);
    hash = run(length).weights_hash;
    const std::vector<double> got = rates("steps.jsonl");
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-9) << "step " << i + 1;
    EXPECT_NEAR(rates("metrics.jsonl").back(), expected.back(), 1e-9);
  }
  EXPECT_NE(run({"epochs=2", "learning_rate=0.2", "accumulate=2"}).weights_hash, hash);
}

double deviation(const std::vector<nn::NamedValues>& tensors, const std::string& name) {
  for (const nn::NamedValues& tensor : tensors)
    if (tensor.name == name) {
      double squares = 0;
      for (const float value : tensor.values) squares += double{value} * value;
      return std::sqrt(squares / static_cast<double>(tensor.values.size()));
    }
  ADD_FAILURE() << "no tensor " << name;
  return 0;
}

TEST_F(TrainingOptions, WeightsBeginAsInitSays) {
  const auto begun = [&](const char* init) {
    return read_safetensors(run({init, "epochs=", "steps=1", "learning_rate=1e-30"}).weights);
  };
  const auto normal = begun("init={normal: 0.05}");
  EXPECT_NEAR(deviation(normal, "fc1.weight"), 0.05, 0.05 * 0.05);
  EXPECT_NEAR(deviation(normal, "conv2.weight"), 0.05, 0.05 * 0.05);
  // For images of 16 x 16, fc1 maps 50 channels of one pixel to 128, and conv2 maps 20 channels to 50 by 5 x 5.
  const double xavier = std::sqrt(2. / (50 + 128)), kaiming = std::sqrt(2. / 128);
  EXPECT_NEAR(deviation(begun("init=xavier_uniform"), "fc1.weight"), xavier, 0.05 * xavier);
  const auto by_outputs = begun("init=kaiming_normal");
  EXPECT_NEAR(deviation(by_outputs, "fc1.weight"), kaiming, 0.05 * kaiming);
  EXPECT_NEAR(deviation(by_outputs, "conv2.weight"), std::sqrt(2. / (50 * 25)), 0.05 * std::sqrt(2. / (50 * 25)));
  const auto as_flax = begun("init=lecun_normal");
  EXPECT_NEAR(deviation(as_flax, "conv2.weight"), std::sqrt(1. / (20 * 25)), 0.05 * std::sqrt(1. / (20 * 25)));
  for (const char* bias : {"conv1.bias", "fc2.bias"}) {
    EXPECT_LT(deviation(as_flax, bias), 1e-20);
    EXPECT_GT(deviation(by_outputs, bias), 1e-3) << "the model's own";
  }
}

/// The weights don't change: the training loss has smoothed labels, and the test loss the true ones.
TEST_F(TrainingOptions, LabelsAreSmoothedInTrainingAlone) {
  const auto losses = [&](const char* smoothing) {
    run({smoothing, "init={normal: 0.5}", "learning_rate=1e-30", "epochs=1"});
    const EpochMetrics& epoch = observer_->epochs.at(0);
    return std::pair(epoch.train.score.mean_loss(), epoch.test->score.mean_loss());
  };
  const auto plain = losses("label_smoothing=0"), smoothed = losses("label_smoothing=0.4");
  EXPECT_GT(std::abs(plain.first - smoothed.first), 1e-3);
  EXPECT_EQ(plain.second, smoothed.second);
}

TEST_F(TrainingOptions, ConvolutionsAreComputedAsAsked) {
  if (cpu_isa() == CpuIsa::baseline) GTEST_SKIP() << "no AVX2: every convolution is direct here";
  const std::string automatic = run({"epochs=1"}).weights_hash;
  EXPECT_NE(run({"epochs=1", "convolution=direct"}).weights_hash, automatic);
  EXPECT_EQ(run({"epochs=1", "convolution=winograd"}).weights_hash, automatic) << "the rule of f32";
}

}  // namespace
}  // namespace dptrain::train
