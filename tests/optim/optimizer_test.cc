// Optimizers over a model's flat buffers, and how a configuration names them.

#include "optim/optimizer.h"

#include <algorithm>

#include "config/config_document.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/sgd.h"
#include "optim/weight_average.h"
#include "support/expect_error.h"
#include "support/optimizer_steps.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

using namespace testing;

/// A linear layer of three weights and a bias, all 1, with gradients that are all 2.
std::unique_ptr<nn::Model> little_model(Device& device) {
  auto model = std::make_unique<nn::Model>();
  model->add_stage(std::make_unique<nn::Linear>(3, 1));
  model->place(device, {});
  for (const Parameter* parameter : model->parameters()) {
    std::fill_n(parameter->value().data<float>(), parameter->value().elements(), 1.f);
    std::fill_n(parameter->gradient().data<float>(), parameter->gradient().elements(), 2.f);
  }
  return model;
}

class Optimizers : public ::testing::Test {
 protected:
  /// The value of every element after two steps at a rate of 0.5.
  float after_two_steps(const optim::SgdSettings& settings) const {
    const auto model = little_model(*device_);
    optim::Sgd sgd(optim::FlatWeights::of(*model), settings);
    for (int64_t step = 1; step <= 2; ++step) sgd.step({.learning_rate = 0.5, .number = step});
    const float first = model->weights().values()[0];
    for (const Parameter* parameter : model->parameters())
      for (const float value : parameter->value().values()) EXPECT_EQ(value, first);
    return first;
  }
  /// The name of the optimizer in the text, and a little model's weight, or its bias, after two steps.
  std::pair<std::string, float> read(const std::string& text, bool of_bias = false) const {
    optim::OptimizerSpec spec;
    const ConfigSession session(parse_config(text, "a.yaml"),
                                [&](ConfigReader& config) { spec = optim::read_optimizer(config); });
    const auto model = little_model(*device_);
    const auto optimizer = spec.make(optim::FlatWeights::of(*model));
    for (int64_t step = 1; step <= 2; ++step)
      step_whole(*optimizer, optim::FlatWeights::of(*model), {.learning_rate = 0.5, .number = step});
    return {spec.name, model->parameters()[of_bias ? 1 : 0]->value().values()[0]};
  }
  std::unique_ptr<Device> device_ = test_device();
};

TEST_F(Optimizers, SgdGoesDownTheGradient) { EXPECT_EQ(after_two_steps({}), 1 - 0.5f * 2 * 2); }

TEST_F(Optimizers, MomentumKeepsWhatItHad) {
  // The velocities are 2 and 0.5 * 2 + 2.
  EXPECT_EQ(after_two_steps({.momentum = 0.5}), 1 - 0.5f * (2 + 3));
  // With Nesterov: 2 + 0.5 * 2, then 2 + 0.5 * 3.
  EXPECT_EQ(after_two_steps({.momentum = 0.5, .nesterov = true}), 1 - 0.5f * (3 + 3.5f));
}

TEST_F(Optimizers, WeightDecayJoinsTheGradient) {
  // From 1: 1 - 0.5 * (2 + 0.5 * 1) = -0.25; then -0.25 - 0.5 * (2 - 0.5 * 0.25).
  EXPECT_EQ(after_two_steps({.weight_decay = 0.5}), -0.25f - 0.5f * (2 - 0.125f));
}

TEST_F(Optimizers, KeepAVelocityOnlyForMomentum) {
  const auto model = little_model(*device_);
  const auto bytes = [&] { return device_->allocator().in_use()[MemoryPurpose::optimizer]; };
  const optim::Sgd plain(optim::FlatWeights::of(*model), {.weight_decay = 0.1});
  EXPECT_EQ(bytes(), 0);
  {
    const optim::Sgd heavy(optim::FlatWeights::of(*model), {.momentum = 0.9});
    EXPECT_GE(bytes(), model->weights().bytes());
  }
  EXPECT_EQ(bytes(), 0);
}

TEST_F(Optimizers, AreReadFromTheConfiguration) {
  EXPECT_EQ(read("{}"), std::pair(std::string("sgd"), after_two_steps({})));
  EXPECT_EQ(read("optimizer: sgd\n").second, after_two_steps({}));
  EXPECT_EQ(read("optimizer: {name: sgd, momentum: 0.5, nesterov: true, weight_decay: 0.25}\n").second,
            after_two_steps({.momentum = 0.5, .weight_decay = 0.25, .nesterov = true}));
}

TEST_F(Optimizers, AdamIsReadWithPyTorchsDefaults) {
  // Equal gradients don't change the corrected means, so each step is as long as the learning rate.
  EXPECT_NEAR(read("optimizer: adam\n").second, 1 - 2 * 0.5, 1e-6);
  EXPECT_NEAR(read("optimizer: {name: adam, betas: [0.5, 0.5], eps: 2}\n").second, 1 - 2 * 0.25, 1e-6);
  // AdamW's default decay multiplies the weight by 1 - 0.01 * rate before each step.
  EXPECT_NEAR(read("optimizer: adamw\n").second, (0.995 - 0.5) * 0.995 - 0.5, 1e-6);
  EXPECT_NEAR(read("optimizer: {name: adamw, weight_decay: 0}\n").second, read("optimizer: adam\n").second, 1e-6);
}

TEST_F(Optimizers, ThoseByLayersScaleTheWeightByItsNorms) {
  // A weight of 1s with gradients of 2s: steps of 0.5 * 0.5 * |weights| / |gradients| * 2, for weights of 1 and then of
  // 0.75.
  const auto lars = read("optimizer: {name: lars, momentum: 0, trust_coefficient: 0.5, eps: 0}\n");
  EXPECT_EQ(lars.first, "lars");
  EXPECT_NEAR(lars.second, 0.5625, 1e-6);
  // The first step is 0.5. Since gradients stay the same, the second is half of what is left, however long Adam's step
  // is.
  EXPECT_NEAR(read("optimizer: {name: lamb, weight_decay: 0}\n").second, 0.25, 1e-6);
  EXPECT_NEAR(read("optimizer: {name: lamb, weight_decay: 0, eps: 1}\n").second, 0.25, 1e-6);
}

/// Each option is tested on a bias of 1, after two steps of 0.5.
TEST_F(Optimizers, ThoseByLayersTakeTheirOptions) {
  const auto bias = [&](const std::string& options) { return read("optimizer: {" + options + "}\n", true).second; };
  // Vectors move as under SGD and AdamW.
  EXPECT_NEAR(bias("name: lars"), 1 - 0.5 * (2 + 3.8), 1e-6);
  EXPECT_NEAR(bias("name: lars, momentum: 0.5, nesterov: true"), 1 - 0.5 * (3 + 3.5), 1e-6);
  EXPECT_NEAR(bias("name: lars, momentum: 0, weight_decay: 0.5"), (1 - 0.5 * 2.5) - 0.5 * (2 + 0.5 * -0.25), 1e-6);
  EXPECT_NEAR(bias("name: lars, momentum: 0, adapt_vectors: true, trust_coefficient: 0.5, eps: 0"), 0.5625, 1e-6);
  EXPECT_NEAR(bias("name: lamb, weight_decay: 0"), 0, 1e-5);
  EXPECT_NEAR(bias("name: lamb, weight_decay: 0, adapt_vectors: true"), 0.25, 1e-6);
  // All steps are of first / sqrt(second) = 1, except as eps and decay change them.
  EXPECT_NEAR(bias("name: lamb, weight_decay: 0, betas: [0.5, 0.25], eps: 2"), 1 - 2 * 0.25, 1e-6);
  EXPECT_NEAR(bias("name: lamb, weight_decay: 0.5"), (1 - 0.5 * 1.5) - 0.5 * (1 + 0.5 * 0.25), 1e-5);
}

TEST_F(Optimizers, NameWhatTheyKeepAsPyTorchDoes) {
  const auto model = little_model(*device_);
  const auto names = [](const optim::Optimizer& optimizer) {
    std::vector<std::string> found;
    for (const auto& state : optimizer.state()) found.push_back(state.name);
    return found;
  };
  using Names = std::vector<std::string>;
  const auto flat = optim::FlatWeights::of(*model);
  EXPECT_EQ(names(optim::Sgd(flat, {})), Names());
  EXPECT_EQ(names(optim::Sgd(flat, {.momentum = 0.9})), Names{"momentum_buffer"});
  EXPECT_EQ(names(optim::Adam(flat, {})), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(names(optim::Lars(flat, {.momentum = 0})), Names());
  EXPECT_EQ(names(optim::Lars(flat, {})), Names{"momentum_buffer"});
  EXPECT_EQ(names(optim::Lamb(flat, {})), (Names{"exp_avg", "exp_avg_sq"}));
}

TEST_F(Optimizers, AnAverageFollowsTheWeights) {
  const auto model = little_model(*device_);  // weights of 1
  optim::WeightAverage average(model->weights(), 0.75);
  const auto weigh = [&](float value) {
    std::fill_n(model->weights().data<float>(), model->weights().elements(), value);
  };
  weigh(5);
  average.follow(model->weights());
  EXPECT_EQ(average.values().values()[0], 1 + 0.25f * 4);
  average.swap_with(model->weights());
  EXPECT_EQ(model->weights().values()[0], 2);
  average.swap_with(model->weights());
  EXPECT_EQ(model->weights().values()[0], 5);
  EXPECT_EQ(average.values().values()[0], 2);
}

TEST_F(Optimizers, RefuseWhatMakesNoSense) {
  expect_error(ExitCode::config, {"betas"}, [&] { read("optimizer: {name: adam, betas: [0.9, 1]}\n"); });
  expect_error(ExitCode::config, {"betas", "two numbers", "got 1"},
               [&] { read("optimizer: {name: adam, betas: 0.9}\n"); });
  expect_error(ExitCode::config, {"eps"}, [&] { read("optimizer: {name: adamw, eps: 0}\n"); });
  expect_error(ExitCode::config, {"trust_coefficient"},
               [&] { read("optimizer: {name: lars, trust_coefficient: 0}\n"); });
  expect_error(ExitCode::config, {"nesterov needs a momentum"},
               [&] { read("optimizer: {name: lars, momentum: 0, nesterov: true}\n"); });
  expect_error(ExitCode::config, {"betas"}, [&] { read("optimizer: {name: lamb, betas: [0.9, 1]}\n"); });
  expect_error(ExitCode::config, {"eps", "from 1.0e-30"}, [&] { read("optimizer: {name: adam, eps: 1e-50}\n"); });
  expect_error(ExitCode::config, {"a.yaml:1", "optimizer", "adamm"}, [&] { read("optimizer: adamm\n"); });
  expect_error(ExitCode::config, {"momentum"}, [&] { read("optimizer: {name: sgd, momentum: 1}\n"); });
  expect_error(ExitCode::config, {"weight_decay"}, [&] { read("optimizer: {name: sgd, weight_decay: -1}\n"); });
  expect_error(ExitCode::config, {"nesterov needs a momentum", "momentum: 0.9"},
               [&] { read("optimizer: {name: sgd, nesterov: true}\n"); });
}

}  // namespace
}  // namespace dptrain
