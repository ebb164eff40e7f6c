// Nets built from lists of layers: shapes, layers that are computed in one pass, and every mistake that an image shows.

#include "models/layered_net.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/cross_entropy.h"
#include "models/layers_of.h"
#include "nn/named_values.h"
#include "support/device_rows.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"
#include "support/formula_values.h"
#include "support/test_device.h"

namespace dptrain::models {
namespace {

using testing::expect_error;

class LayeredNet : public ::testing::TestWithParam<testing::DeviceRow> {
 protected:
  std::unique_ptr<nn::Model> build(const std::string& layers, const ModelInput& input) const {
    return build_layered_net(layers_of(layers), {.device = *device_}, input);
  }
  std::unique_ptr<nn::Model> placed(const std::string& layers, const ModelInput& input) const {
    auto model = build(layers, input);
    model->place(*device_, {.seed = 3, .weights = {}});
    return model;
  }
  /// The net's outputs for one image, in evaluation.
  std::vector<float> values_of(const std::string& layers, const ModelInput& input,
                               const std::vector<float>& image) const {
    const auto model = placed(layers, input);
    Tape tape(Tape::Mode::forget);
    const Shape& shape = input.image;
    return model->forward(tape.input(Tensor::from(*device_, {1, shape[0], shape[1], shape[2]}, image)), {.tape = tape})
        .value()
        .values();
  }
  /// Compares what two nets compute. A GPU's libraries may choose another algorithm if another layer is in the pass.
  void expect_same(const std::vector<float>& got, const std::vector<float>& expected) const {
    if (GetParam().device.kind == DeviceKind::cpu) {
      EXPECT_EQ(got, expected);
      return;
    }
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6 * (1 + std::abs(expected[i]))) << i;
  }
  void expect_refused(const std::string& layers, std::initializer_list<std::string_view> words,
                      const ModelInput& input = {.image = {1, 16, 16}}) const {
    expect_error(ExitCode::config, words, [&] { build(layers, input); });
  }

  std::unique_ptr<Device> device_ = GetParam().open();
};

/// Every kind of layer. Layouts also differ from layer to layer: the first block's input is nhwc, its convolution's
/// output in blocks of channels. The comments have shapes for images of [3, 12, 10].
constexpr const char* kEveryLayer = R"(
  - batch_norm
  - conv: {channels: 20, kernel: 3, padding: 1, bias: false}  # [20, 12, 10]
  - batch_norm
  - relu
  - conv: {channels: 16, kernel: 1}
  - tanh
  - max_pool: 2                                               # [16, 6, 5]
  - repeat:
      times: 2
      layers:
        - residual: [conv: {channels: 16, kernel: 3, padding: 1}, batch_norm]
        - relu
  - residual:
      layers: [conv: {channels: 20, kernel: 3, stride: 2}]    # [20, 2, 2]
      shortcut: [avg_pool: {kernel: 3, stride: 2}, conv: {channels: 20, kernel: 1}]
  - avg_pool: {kernel: 3, stride: 1, padding: 1}              # [20, 2, 2]
  - residual: {layers: [conv: {channels: 24, kernel: 1}], shortcut: padded}  # [24, 2, 2]
  - gelu
  - residual: {layers: [conv: {channels: 25, kernel: 3, stride: 2, padding: 1}], shortcut: padded}  # [25, 1, 1]
  - silu
  - dropout: 0.1
  - relu
  - residual: [relu]
  - residual: {layers: [flatten, linear: 25], shortcut: [global_avg_pool]}  # [25]
  - linear: {features: 6, bias: false}
  - relu
  - layer_norm
  - residual: {layers: [gelu, linear: 4, layer_norm: {eps: 0.01}, tanh], shortcut: [linear: 4]}
  - leaky_relu: 0.2
  - linear: 4
  - batch_norm: {eps: 0.01, momentum: 0.3}
  - residual: [linear: 4, batch_norm]
  - relu
  - residual: [sigmoid]
  - linear: classes)";
const ModelInput kSmall = {.image = {3, 12, 10}, .classes = 7};

TEST_P(LayeredNet, ShapesFollowFromTheImage) {
  const auto model = placed(kEveryLayer, kSmall);
  const std::vector<Shape> expected = {
      {2, 3, 12, 10}, {2, 20, 12, 10}, {2, 20, 12, 10}, {2, 16, 12, 10}, {2, 16, 12, 10}, {2, 16, 6, 5}, {2, 16, 6, 5},
      {2, 16, 6, 5},  {2, 20, 2, 2},   {2, 20, 2, 2},   {2, 24, 2, 2},   {2, 24, 2, 2},   {2, 25, 1, 1}, {2, 25, 1, 1},
      {2, 25, 1, 1},  {2, 25, 1, 1},   {2, 25, 1, 1},   {2, 25},         {2, 6},          {2, 6},        {2, 4},
      {2, 4},         {2, 4},          {2, 4},          {2, 4},          {2, 4},          {2, 7}};
  ASSERT_EQ(model->stage_count(), static_cast<int>(expected.size())) << "a layer with what its pass takes in is one";
  Tape tape(Tape::Mode::forget);
  Variable value = tape.input(Tensor::zeros(*device_, {2, 3, 12, 10}));
  for (int i = 0; i < model->stage_count(); ++i) {
    value = model->stage(i).forward(value, {.tape = tape});
    EXPECT_EQ(value.value().shape(), expected[static_cast<size_t>(i)]) << "stage " << i;
  }
}

TEST_P(LayeredNet, MeansOfChannelsNeedNoFlatten) {
  const auto logits = values_of("[global_avg_pool]", {.image = {2, 1, 2}, .classes = 2}, {1, 3, 5, 9});
  EXPECT_EQ(logits, (std::vector<float>{2, 7}));
}

TEST_P(LayeredNet, ComputesInOnePassWhatThePassMeans) {
  // Running statistics are 0 and 1, so a batch norm multiplies by s.
  const float s = 1 / std::sqrt(1 + 1e-5f);
  const std::vector<std::pair<const char*, std::vector<float>>> nets = {
      {"[flatten]", {-1, 2}},
      {"[relu, flatten]", {0, 2}},
      {"[flatten, relu]", {0, 2}},
      {"[batch_norm, relu, flatten]", {0, 2 * s}},
      {"[batch_norm, flatten, relu]", {0, 2 * s}},
      {"[residual: [relu], flatten]", {-1, 4}},
      {"[residual: [relu], relu, flatten]", {0, 4}},
      {"[residual: {layers: [relu], shortcut: [relu]}, flatten]", {0, 4}},
      {"[residual: [batch_norm], flatten]", {-1 - s, 2 + 2 * s}},
      {"[residual: [batch_norm], relu, flatten]", {0, 2 + 2 * s}},
      {"[residual: [batch_norm, relu], flatten]", {-1, 2 + 2 * s}},
      {"[residual: [batch_norm, relu], relu, flatten]", {0, 2 + 2 * s}},
      {"[residual: [repeat: {times: 1, layers: [batch_norm]}], relu, flatten]", {0, 2 + 2 * s}},
      {"[residual: {layers: [relu], shortcut: [batch_norm]}, relu, flatten]", {0, 2 + 2 * s}},
      {"[residual: {layers: [batch_norm], shortcut: [relu]}, flatten]", {-s, 2 + 2 * s}},
      {"[residual: [residual: [batch_norm]], relu, flatten]", {0, 4 + 2 * s}},
      {"[residual: [relu, residual: [batch_norm]], flatten]", {-1, 4 + 2 * s}},
      {"[repeat: {times: 2, layers: [residual: [relu]]}, flatten]", {-1, 8}},
      {"[residual: {layers: [relu], shortcut: padded}, flatten]", {-1, 4}},
      {"[residual: {layers: [batch_norm], shortcut: padded}, flatten]", {-1 - s, 2 + 2 * s}},
      {"[residual: {layers: [batch_norm], shortcut: padded}, relu, flatten]", {0, 2 + 2 * s}},
      {"[residual: {layers: [batch_norm, relu], shortcut: padded}, relu, flatten]", {0, 2 + 2 * s}},
  };
  for (const auto& [layers, expected] : nets) {
    const auto values = values_of(layers, {.image = {1, 1, 2}, .classes = 2}, {-1, 2});
    ASSERT_EQ(values.size(), 2u) << layers;
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(values[i], expected[i], 1e-5) << layers;
  }
}

/// The largest value of each window of [channels, side, side].
std::vector<float> maxima_of(const std::vector<float>& images, int64_t side, int64_t kernel, int64_t stride) {
  const int64_t places = (side - kernel) / stride + 1;
  std::vector<float> maxima;
  for (int64_t channel = 0; channel * side * side < std::ssize(images); ++channel)
    for (int64_t i = 0; i < places * places; ++i) {
      const int64_t top = i / places * stride, left = i % places * stride;
      float most = -std::numeric_limits<float>::infinity();
      for (int64_t j = 0; j < kernel * kernel; ++j)
        most =
            std::max(most, images[static_cast<size_t>((channel * side + top + j / kernel) * side + left + j % kernel)]);
      maxima.push_back(most);
    }
  return maxima;
}

TEST_P(LayeredNet, AMaxPoolAndAReLUAreOnePassWithTheConvolutionBeforeThem) {
  constexpr int64_t kSide = 18;
  const ModelInput input = {.image = {1, kSide + 2, kSide + 2}};
  const std::vector<float> image = testing::formula_images(1, input.image.elements());
  const auto net = [&](const std::string& behind) { return "[conv: {channels: 3, kernel: 3}, " + behind + "flatten]"; };
  const auto with_outputs = [input](int64_t count) {
    ModelInput of = input;
    of.classes = count;
    return of;
  };
  const std::vector<float> convolved = values_of(net(""), with_outputs(3 * kSide * kSide), image);
  struct Case {
    std::string layers;
    int64_t kernel;
    int64_t stride;
    bool relu;
    int stages;  ///< including the flatten
  };
  for (const Case& one :
       {Case{"max_pool: 2, ", 2, 2, false, 2}, Case{"relu, max_pool: 2, ", 2, 2, true, 2},
        Case{"max_pool: 2, relu, ", 2, 2, true, 2}, Case{"relu, max_pool: {kernel: 3, stride: 1}, ", 3, 1, true, 2},
        // The window is too large for the place of its maximum and the ReLU to share a byte.
        Case{"relu, max_pool: 16, ", 16, 16, true, 2}, Case{"relu, relu, max_pool: 2, ", 2, 2, true, 4},
        Case{"relu, max_pool: 2, relu, ", 2, 2, true, 3}, Case{"dropout: 0.5, max_pool: 2, relu, ", 2, 2, true, 4}}) {
    SCOPED_TRACE(one.layers);
    std::vector<float> expected = maxima_of(convolved, kSide, one.kernel, one.stride);
    if (one.relu) std::ranges::transform(expected, expected.begin(), [](float x) { return std::max(0.F, x); });
    const ModelInput of = with_outputs(std::ssize(expected));
    expect_same(values_of(net(one.layers), of, image), expected);
    EXPECT_EQ(build(net(one.layers), of)->stage_count(), one.stages);
  }
}

TEST_P(LayeredNet, APaddedShortcutWidensAndHalvesItsInput) {
  // The convolution's weights are almost zero, so only the shortcut remains.
  const std::string layers =
      "[residual: {layers: [conv: {channels: 2, kernel: 3, stride: 2, padding: 1, bias: false, init: {normal: 1e-30}}],"
      " shortcut: padded}, flatten]";
  const auto values = values_of(layers, {.image = {1, 3, 3}, .classes = 8}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  // Windows over the edge average only the values that they contain.
  const std::vector<float> expected = {3, 4.5, 7.5, 9, 0, 0, 0, 0};
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << i;
}

TEST_P(LayeredNet, AReLUAtTheEndIsComputed) {
  const std::vector<float> image = testing::formula_images(1, 64);
  const auto logits = values_of("[flatten, linear: classes]", {.image = {1, 8, 8}}, image);
  const auto rectified = values_of("[flatten, linear: classes, relu]", {.image = {1, 8, 8}}, image);
  ASSERT_LT(std::ranges::min(logits), 0);
  std::vector<float> expected = logits;
  for (float& logit : expected) logit = std::max(0.f, logit);
  expect_same(rectified, expected);
}

TEST_P(LayeredNet, ActivationsAndLayerNormFollowTheirFormulas) {
  // For -1 and 2 the mean is 0.5 and the variance 2.25.
  const auto gelu = [](double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const std::vector<std::pair<const char*, std::vector<double>>> nets = {
      {"[gelu, flatten]", {gelu(-1), gelu(2)}},
      {"[flatten, gelu, relu]", {0, gelu(2)}},
      {"[tanh, flatten]", {std::tanh(-1.0), std::tanh(2.0)}},
      {"[flatten, tanh, relu]", {0, std::tanh(2.0)}},
      {"[sigmoid, flatten]", {sigmoid(-1), sigmoid(2)}},
      {"[flatten, silu, relu]", {0, 2 * sigmoid(2)}},
      {"[silu, flatten]", {-sigmoid(-1), 2 * sigmoid(2)}},
      {"[flatten, leaky_relu]", {-0.01, 2}},
      {"[leaky_relu: 0.25, flatten]", {-0.25, 2}},
      {"[flatten, leaky_relu: {slope: 0}, relu]", {0, 2}},
      {"[flatten, layer_norm]", {-1.5 / std::sqrt(2.25 + 1e-5), 1.5 / std::sqrt(2.25 + 1e-5)}},
      {"[flatten, layer_norm: {eps: 4}, relu]", {0, 0.6}},
  };
  for (const auto& [layers, expected] : nets) {
    const auto values = values_of(layers, {.image = {1, 1, 2}, .classes = 2}, {-1, 2});
    ASSERT_EQ(values.size(), 2u) << layers;
    // The tolerance is below the effect of the default epsilon, 2e-6.
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << layers;
  }
}

/// torch.nn.BatchNorm1d and 2d: over features, over images, and both with a residual and a ReLU in the same pass.
TEST_P(LayeredNet, BatchNormFollowsItsFormulaWithEpsilonAndMomentum) {
  struct Case {
    const char* layers;
    Shape image;
    double epsilon, momentum;
    bool residual, relu;
  };
  for (const Case& c :
       {Case{"[flatten, batch_norm]", {1, 1, 6}, 1e-5, 0.1, false, false},
        Case{"[flatten, batch_norm: {eps: 0.5}]", {1, 1, 6}, 0.5, 0.1, false, false},
        Case{"[flatten, batch_norm: {momentum: 0.75}, relu]", {1, 1, 6}, 1e-5, 0.75, false, true},
        Case{"[flatten, residual: [batch_norm: {eps: 2, momentum: 1}], relu]", {1, 1, 20}, 2, 1, true, true},
        Case{"[flatten, batch_norm: {momentum: 0}]", {1, 1, 16}, 1e-5, 0, false, false},
        Case{"[batch_norm: {eps: 0.5, momentum: 0.25}, relu, flatten]", {3, 2, 2}, 0.5, 0.25, false, true},
        Case{"[residual: [batch_norm: {eps: 0.5, momentum: 0.25}], flatten]", {20, 2, 1}, 0.5, 0.25, true, false}}) {
    SCOPED_TRACE(c.layers);
    constexpr size_t kBatch = 5;
    const auto values = static_cast<size_t>(c.image.elements());
    const bool features = c.image[0] == 1;
    const size_t channels = features ? values : static_cast<size_t>(c.image[0]), positions = values / channels;
    const std::vector<float> x = testing::Formula{.centre = 1, .scale = 2}.values(kBatch * c.image.elements());
    const auto model = placed(c.layers, {.image = c.image, .classes = c.image.elements()});
    std::vector<double> running_mean(channels), running_variance(channels, 1);
    const auto expected_of = [&](bool training) {
      std::vector<double> y(x.size());
      for (size_t channel = 0; channel < channels; ++channel) {
        const auto for_each = [&](const auto& f) {
          for (size_t n = 0; n < kBatch; ++n)
            for (size_t p = 0; p < positions; ++p) f((n * channels + channel) * positions + p);
        };
        double mean = 0, squares = 0;
        constexpr double kSamples = kBatch;
        const double count = kSamples * static_cast<double>(positions);
        for_each([&](size_t i) { mean += x[i] / count; });
        for_each([&](size_t i) { squares += (x[i] - mean) * (x[i] - mean); });
        double variance = squares / count;
        if (training) {
          running_mean[channel] += c.momentum * (mean - running_mean[channel]);
          running_variance[channel] += c.momentum * (squares / (count - 1) - running_variance[channel]);
        } else {
          mean = running_mean[channel], variance = running_variance[channel];
        }
        for_each([&](size_t i) {
          y[i] = (x[i] - mean) / std::sqrt(variance + c.epsilon) + (c.residual ? x[i] : 0);
          if (c.relu) y[i] = std::max(0.0, y[i]);
        });
      }
      return y;
    };
    for (const bool training : {true, true, false}) {
      Tape tape(Tape::Mode::forget);
      const Tensor images = Tensor::from(*device_, {kBatch, c.image[0], c.image[1], c.image[2]}, x);
      const std::vector<float> got =
          model->forward(tape.input(images), {.tape = tape, .training = training}).value().values();
      const std::vector<double> expected = expected_of(training);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << i << ", training " << training;
      for (size_t channel = 0; channel < channels; ++channel) {
        EXPECT_NEAR(model->states()[0]->value.values()[channel], running_mean[channel], 1e-6);
        EXPECT_NEAR(model->states()[1]->value.values()[channel], running_variance[channel], 1e-5);
      }
    }
  }
}

/// The defaults are what the built-in models' batch norms compute with, bit for bit.
TEST_P(LayeredNet, ABatchNormThatSaysWhatIsTheDefaultComputesTheSame) {
  const std::vector<float> image = testing::formula_images(1, 64);
  const auto trained = [&](const std::string& norm) {
    const auto model = placed("[" + norm + ", flatten]", {.image = {1, 4, 4}, .classes = 16});
    Tape tape(Tape::Mode::forget);
    std::vector<float> values =
        model->forward(tape.input(Tensor::from(*device_, {4, 1, 4, 4}, image)), {.tape = tape, .training = true})
            .value()
            .values();
    for (const nn::RunningState* state : model->states()) values.push_back(state->value.values()[0]);
    return values;
  };
  EXPECT_EQ(trained("batch_norm: {eps: 1.0e-5, momentum: 0.1}"), trained("batch_norm"));
  auto model = std::make_unique<nn::Model>();
  model->add_stage(std::make_unique<nn::BatchNorm>(1));
  model->place(*device_, {});
  Tape tape(Tape::Mode::forget);
  const Variable x = tape.input(Tensor::from(*device_, {4, 1, 4, 4}, image));
  std::vector<float> values = model->forward(x, {.tape = tape, .training = true}).value().values();
  for (const nn::RunningState* state : model->states()) values.push_back(state->value.values()[0]);
  EXPECT_EQ(trained("batch_norm"), values);
}

TEST_P(LayeredNet, LayerNormHasTheParametersOfPyTorchs) {
  const auto model = placed("[global_avg_pool, layer_norm, layer_norm: {name: last}]", {.image = {10, 2, 2}});
  const std::vector<nn::NamedValues> state = nn::state_dict(*model);
  const std::vector<std::string> names = {"ln1.weight", "ln1.bias", "last.weight", "last.bias"};
  ASSERT_EQ(state.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(state[i].name, names[i]);
    EXPECT_EQ(state[i].shape, Shape{10});
    EXPECT_EQ(state[i].values, std::vector<float>(10, names[i].ends_with("weight") ? 1.f : 0.f)) << names[i];
  }
}

TEST_P(LayeredNet, ALinearLayerMayHaveNoBias) {
  const ModelInput input = {.image = {1, 5, 5}, .classes = 7};
  const std::vector<float> image = testing::formula_images(1, 25), dark(25);
  const auto net = [](const std::string& options, const std::string& behind) {
    return "[flatten, linear: {features: classes, init: {normal: 0.5}" + options + "}" + behind + "]";
  };
  for (const std::string behind : {"", ", relu", ", gelu"}) {
    SCOPED_TRACE(behind);
    const std::string layers = net(", bias: false", behind);
    const std::vector<nn::NamedValues> state = nn::state_dict(*placed(layers, input));
    ASSERT_EQ(state.size(), 1u);
    EXPECT_EQ(state[0].name, "fc1.weight");
    EXPECT_EQ(values_of(layers, input, dark), std::vector<float>(7));
    const std::vector<float> got = values_of(layers, input, image);
    for (size_t o = 0; o < got.size(); ++o) {
      double sum = 0;
      for (size_t i = 0; i < image.size(); ++i) sum += double{state[0].values[o * image.size() + i]} * image[i];
      const double expected = behind == ", relu"   ? std::max(0.0, sum)
                              : behind == ", gelu" ? sum * (1 + std::erf(sum / std::sqrt(2.0))) / 2
                                                   : sum;
      EXPECT_NEAR(got[o], expected, 1e-5) << o;
    }
  }
  EXPECT_EQ(nn::state_dict(*placed(net("", ""), input)).size(), 2u);
  EXPECT_NE(values_of(net("", ""), input, dark), std::vector<float>(7)) << "it is the bias that is left out";
}

TEST_P(LayeredNet, DropoutLayersDrawApart) {
  const auto model = placed("[flatten, dropout: 0.5, dropout: 0.5]", {.image = {1, 1, 1000}, .classes = 1000});
  Tape tape(Tape::Mode::record);
  const std::vector<float> ones(1000, 1);
  const auto values = model
                          ->forward(tape.input(Tensor::from(*device_, {1, 1, 1, 1000}, ones)),
                                    {.tape = tape,
                                     .training = true,
                                     .seed = 1,
                                     .epoch = testing::epoch_on(*device_, 1),
                                     .sample_ids = testing::sample_ids_on(*device_, 0, 1)})
                          .value()
                          .values();
  const auto kept = std::ranges::count_if(values, [](float value) { return value > 0; });
  EXPECT_NEAR(static_cast<double>(kept), 250, 60) << "one mask twice would keep 500";
}

TEST_P(LayeredNet, GradientsFlowToEveryParameter) {
  const auto model = placed(kEveryLayer, kSmall);
  constexpr int64_t kBatch = 4;
  const auto labels = testing::labels_on(*device_, testing::formula_labels(1, kBatch, 7));
  const auto loss = [&](Tape::Mode mode) {
    Tape tape(mode);
    const Tensor images = Tensor::from(*device_, {kBatch, 3, 12, 10}, testing::formula_images(1, kBatch * 360));
    const Variable losses = autograd::cross_entropy(
        model->forward(tape.input(images), {.tape = tape,
                                            .training = true,
                                            .epoch = testing::epoch_on(*device_, 1),
                                            .sample_ids = testing::sample_ids_on(*device_, 0, kBatch)}),
        labels, {.scale = 1.0 / kBatch});
    double total = 0;
    for (const double one : testing::stored_values<double>(losses.value())) total += one;
    if (mode == Tape::Mode::record) tape.backward(losses, losses.value());
    return total / kBatch;
  };
  loss(Tape::Mode::record);
  double square = 0;
  for (const Parameter* parameter : model->parameters()) {
    double own = 0;
    for (const float value : ops::reorder(parameter->gradient(), Layout::plain).values()) own += double{value} * value;
    // A bias before a batch norm changes nothing; rounding may or may not leave it a gradient.
    const std::string& name = parameter->name();
    const bool is_idle = (name.starts_with("residual1.") && name.ends_with("conv1.bias")) || name == "fc2.bias" ||
                         name == "residual8.fc1.bias";
    EXPECT_TRUE(own > 1e-12 || is_idle) << parameter->name();
    square += own;
  }
  // By central differences, the loss grows along the gradient by the gradient's norm. The step is so small that few
  // ReLUs and maxima change sides, and so large that rounding of a loss of 2 hardly matters.
  const double norm = std::sqrt(square);
  const auto moved = [&](double distance) {
    const auto weights = model->weights().values(), gradients = model->gradients().values();
    std::vector<float> there(weights.size());
    for (size_t i = 0; i < there.size(); ++i)
      there[i] = weights[i] + static_cast<float>(distance / norm * gradients[i]);
    model->weights().copy_from(Tensor::from(*device_, model->weights().shape(), there));
    const double value = loss(Tape::Mode::forget);
    model->weights().copy_from(Tensor::from(*device_, model->weights().shape(), weights));
    return value;
  };
  constexpr double kStep = 2e-3;
  EXPECT_NEAR((moved(kStep) - moved(-kStep)) / (2 * kStep), norm, 0.02 * norm);
}

TEST_P(LayeredNet, RefusesAFormThatALayerCannotTake) {
  expect_refused("[conv: {channels: 4, kernel: 3}, linear: classes]",
                 {"a.yaml:1:42: layers[1].linear (fc1): needs features [N, F], got [N, 4, 14, 14]; put flatten or "
                  "global_avg_pool before it"});
  expect_refused("[layer_norm, flatten, linear: classes]",
                 {"a.yaml:1:10: layers[0].layer_norm (ln1): needs features [N, F], got [N, 1, 16, 16]; put flatten or "
                  "global_avg_pool before it"});
  for (const char* layer : {"conv: {channels: 4, kernel: 3}", "max_pool: 2", "global_avg_pool"})
    expect_refused("[flatten, " + std::string(layer) + "]",
                   {"layers[1].", "needs images [N, C, H, W], got [N, 256]; move it before the flatten"});
}

TEST_P(LayeredNet, RefusesAWindowLargerThanTheImage) {
  expect_refused(
      "[max_pool: 4, max_pool: {kernel: 7, padding: 1}]",
      {"layers[1].max_pool (max_pool2): a window of 7 x 7 with padding 1 needs images of at least 5 x 5, got "
       "[N, 1, 4, 4]; choose a smaller kernel or more padding"});
  expect_refused("[repeat: {times: 5, layers: [conv: {channels: 2, kernel: 5}]}]",
                 {"layers[0].repeat.layers[0].conv (conv1.3): a window of 5 x 5", "got [N, 2, 4, 4]"});
}

TEST_P(LayeredNet, RefusesAMaximumThatAGpuCannotTake) {
  const char* layers = "[max_pool: 17, flatten, linear: classes]";
  if (device_->kind() == DeviceKind::cpu)
    EXPECT_NO_THROW(build(layers, {.image = {1, 28, 28}}));
  else
    expect_refused(layers,
                   {"(max_pool1): on a GPU, max pooling supports windows of at most 16 x 16, got [N, 1, 28, 28]; "
                    "choose a kernel of 16 "
                    "or less"},
                   {.image = {1, 28, 28}});
}

TEST_P(LayeredNet, RefusesAResidualWhoseSidesDiffer) {
  expect_refused(
      "[residual: {name: a, layers: [conv: {channels: 8, kernel: 3, stride: 2, padding: 1}]}]",
      {"a.yaml:1:10: layers[0].residual (a): needs two outputs of the same shape to add, got [N, 8, 8, 8] from its "
       "layers and [N, 1, 16, 16] from its input; write shortcut: [conv: {channels: 8, kernel: 1, stride: "
       "2}]"});
  expect_refused("[residual: {layers: [conv: {channels: 1, kernel: 3}], shortcut: [max_pool: 2]}]",
                 {"got [N, 1, 14, 14] from its layers and [N, 1, 8, 8] from its shortcut; keep the image's size in its "
                  "layers, with padding: 1 for kernel: 3"});
  expect_refused("[flatten, residual: [linear: 8]]", {"[N, 8] from its layers and [N, 256]", "[linear: 8]"});
  expect_refused("[residual: [flatten]]", {"move the layers that change the number of dimensions before or after it"});
  expect_refused("[residual: [residual: [conv: {channels: 2, kernel: 1}]]]", {"(residual1.residual1)"});
}

TEST_P(LayeredNet, RefusesAPaddedShortcutThatDoesNotFit) {
  const auto refused = [&](const std::string& layers, std::initializer_list<std::string_view> words) {
    expect_refused("[conv: {channels: 4, kernel: 1}, residual: {name: a, layers: [" + layers + "], shortcut: padded}]",
                   words);
  };
  refused("conv: {channels: 3, kernel: 1}",
          {"a.yaml:1:42: layers[1].residual (a): shortcut: padded needs layers that output images with at least as "
           "many channels, and of the same size or half of it, got [N, 3, 16, 16] from its layers and [N, 4, 16, 16] "
           "from its input; "
           "write channels: 4 or more in its last conv"});
  for (const char* layer : {"conv: {channels: 8, kernel: 3}", "max_pool: 4", "avg_pool: {kernel: 1, stride: 3}"})
    refused(layer, {"(a): shortcut: padded needs",
                    "[N, 4, 16, 16] from its input; write padding: 1 for kernel: 3, and "
                    "stride: 2 in one layer at most"});
  refused("flatten",
          {"got [N, 1024] from its layers", "move the layers that change the number of dimensions before or after it"});
  expect_refused("[flatten, residual: {layers: [linear: 300], shortcut: padded}]",
                 {"got [N, 300] from its layers and [N, 256] from its input; move it before the flatten"});
}

TEST_P(LayeredNet, RefusesALastLayerThatMakesNoLogits) {
  expect_refused("[flatten, linear: 128]",
                 {"a.yaml:1:19: layers[1].linear (fc1): the last layer must output [N, 10], one value per class of the "
                  "data set, got [N, 128]; end with linear: classes"});
  expect_refused("[conv: {channels: 10, kernel: 3}, relu]",
                 {"layers[1].relu (relu1)", "got [N, 10, 14, 14]; end with flatten and linear: classes"});
}

TEST_P(LayeredNet, RefusesMoreValuesThanFitAnywhere) {
  expect_refused(
      "[conv: {channels: 65536, kernel: 1, padding: 255}]",
      {"(conv1): a layer may output at most 1073741824 values per sample, got [N, 65536, 526, 526]; choose"});
}

/// Subtracting the batch's mean removes whatever a bias has added to every value of a channel.
TEST_P(LayeredNet, ABiasBeforeABatchNormHasNoGradientInTraining) {
  const auto sum_of_magnitudes = [&](const std::string& layers, bool training) {
    const auto model = placed("[" + layers + ", flatten, linear: 10]", {.image = {1, 8, 8}});
    Tape tape(Tape::Mode::record);
    const Tensor images = testing::formula_tensor(*device_, {4, 1, 8, 8}, {});
    const Variable logits = model->forward(tape.input(images), {.tape = tape, .training = training});
    tape.backward(logits, testing::formula_tensor(*device_, {4, 10}, {.tensor = 1}));
    double sum = 0;
    for (const Parameter* parameter : model->parameters())
      if (parameter->name().ends_with("conv1.bias"))
        for (const float value : testing::values_of(parameter->gradient())) sum += std::abs(value);
    return sum;
  };
  const std::string conv = "conv: {channels: 3, kernel: 3, padding: 1}";
  EXPECT_EQ(sum_of_magnitudes(conv + ", batch_norm", true), 0);
  EXPECT_EQ(sum_of_magnitudes(conv + ", batch_norm, relu", true), 0);
  EXPECT_EQ(sum_of_magnitudes("repeat: {times: 2, layers: [" + conv + ", batch_norm]}", true), 0);
  EXPECT_EQ(sum_of_magnitudes(
                "residual: {layers: [" + conv + ", batch_norm], shortcut: [conv: {channels: 3, kernel: 1}]}", true),
            0);
  EXPECT_GT(sum_of_magnitudes(conv + ", batch_norm", false), 0) << "by the running statistics";
  EXPECT_EQ(sum_of_magnitudes("flatten, linear: {features: 5, name: conv1}, batch_norm, relu", true), 0);
  EXPECT_GT(sum_of_magnitudes("flatten, linear: {features: 5, name: conv1}, batch_norm", false), 0);
  EXPECT_GT(sum_of_magnitudes("flatten, linear: {features: 5, name: conv1}, relu, batch_norm", true), 1e-3);
  EXPECT_GT(sum_of_magnitudes("flatten, linear: {features: 5, name: conv1}, gelu, batch_norm", true), 1e-3);
  EXPECT_GT(sum_of_magnitudes(conv + ", relu, batch_norm", true), 1e-3);
  EXPECT_GT(sum_of_magnitudes(conv + ", relu, max_pool: 2, batch_norm", true), 1e-3);
  EXPECT_GT(sum_of_magnitudes(conv + ", relu", true), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Each, LayeredNet, ::testing::ValuesIn(testing::device_rows()), testing::RowName());

}  // namespace
}  // namespace dptrain::models
