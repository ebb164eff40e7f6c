// Every differentiable operation against central differences. Inputs keep a distance from the kinks of ReLU and
// maximum, so that no step crosses one.

#include <algorithm>

#include "autograd/attention.h"
#include "autograd/conv2d.h"
#include "autograd/cross_entropy.h"
#include "autograd/dropout.h"
#include "autograd/elementwise.h"
#include "autograd/embedding.h"
#include "autograd/flatten.h"
#include "autograd/gradient_check.h"
#include "autograd/layer_norm.h"
#include "autograd/linear.h"
#include "autograd/pool2d.h"
#include "autograd/reduce.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

using namespace testing;

Leaf leaf(const Shape& shape, uint64_t tensor, Layout layout = Layout::plain) {
  return {.shape = shape, .values = Formula{.tensor = tensor}.values(shape.elements()), .layout = layout};
}

Leaf parameter(const Shape& shape, uint64_t tensor, Layout layout = Layout::plain) {
  Leaf result = leaf(shape, tensor, layout);
  result.parameter = true;
  return result;
}

/// A bias of +100, -100, ...: it alone decides on which side of zero a channel's outputs are.
Leaf deciding_bias(int64_t channels) {
  Leaf bias = parameter({channels}, 2);
  for (size_t c = 0; c < bias.values.size(); ++c) bias.values[c] = c % 2 == 0 ? 100.f : -100.f;
  return bias;
}

/// Distinct elements at least 0.6 from zero and 0.1 from each other.
Leaf far_apart(const Shape& shape, Layout layout) {
  Leaf result = leaf(shape, 0, layout);
  std::vector<size_t> order(result.values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return result.values[i]; });
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const float distance = 0.6f + 0.1f * static_cast<float>(rank / 2);
    result.values[order[rank]] = rank % 2 == 0 ? distance : -distance;
  }
  return result;
}

/// For functions that aren't linear: the square of the step is within the tolerance, and rounding doesn't matter.
constexpr GradientCheck kCurved{.step = 1e-2, .tolerance = 1e-3};

class Gradients : public ::testing::TestWithParam<DeviceRow> {
 protected:
  template <class Check>
  void for_each_layout(const Check& check) const {
    for (const Layout layout : GetParam().image_layouts) {
      SCOPED_TRACE(layout_name(layout));
      check(layout);
    }
  }
  std::unique_ptr<Device> device_ = GetParam().open(1);
};

TEST_P(Gradients, Conv2d) {
  struct Case {
    Shape x, weight;
    ops::Conv2dOptions options;
  };
  for (const Case& c :
       {Case{{2, 3, 5, 4}, {4, 3, 3, 3}, {.padding = 1}}, Case{{1, 1, 7, 6}, {20, 1, 5, 5}, {}},
        Case{{1, 16, 5, 5}, {16, 16, 3, 3}, {.padding = 1}},
        Case{{1, 16, 5, 6}, {32, 16, 3, 3}, {.stride = 2, .padding = 1}},
        Case{{2, 16, 4, 4}, {20, 16, 1, 1}, {.stride = 2}}, Case{{1, 20, 4, 4}, {16, 20, 5, 5}, {.padding = 2}}}) {
    SCOPED_TRACE(c.weight.text());
    ops::Conv2dOptions options = c.options;
    const std::vector<Leaf> with_bias = {leaf(c.x, 0),
                                         parameter(c.weight, 1, ops::conv2d_weight_layout(*device_, c.weight)),
                                         deciding_bias(c.weight[0])};
    const auto convolve = [&](Tape&, const std::vector<Variable>& v) {
      return autograd::conv2d(v[0], v[1], v.size() > 2 ? v[2] : Variable(), options);
    };
    for (const auto algorithm : {ops::ConvolutionAlgorithm::direct, ops::ConvolutionAlgorithm::automatic}) {
      options.algorithm = algorithm;
      options.relu = true;
      check_gradients(*device_, with_bias, convolve, {.tolerance = 1e-3});
      options.relu = false;
      check_gradients(*device_, {with_bias[0], with_bias[1]}, convolve);
    }
  }
}

TEST_P(Gradients, Linear) {
  const std::vector<Leaf> leaves = {leaf({3, 7}, 0), parameter({5, 7}, 1), deciding_bias(5)};
  check_gradients(
      *device_, leaves,
      [](Tape&, const std::vector<Variable>& v) { return autograd::linear(v[0], v[1], v[2], {.relu = true}); },
      {.tolerance = 1e-3});
  check_gradients(*device_, {leaves[0], leaves[1]},
                  [](Tape&, const std::vector<Variable>& v) { return autograd::linear(v[0], v[1], Variable()); });
}

TEST_P(Gradients, LinearAndGelu) {
  const std::vector<Leaf> leaves = {leaf({2, 3, 7}, 0), parameter({5, 7}, 1), parameter({5}, 2)};
  const auto compute = [](Tape&, const std::vector<Variable>& v) {
    return autograd::linear_gelu(v[0], v[1], v.size() > 2 ? v[2] : Variable());
  };
  check_gradients(*device_, leaves, compute, kCurved);
  check_gradients(*device_, {leaves[0], leaves[1]}, compute, kCurved);
}

TEST_P(Gradients, Pools) {
  for_each_layout([&](Layout layout) {
    for (const ops::Pool2dOptions& options : {ops::Pool2dOptions{}, ops::Pool2dOptions{.ceil = true},
                                              ops::Pool2dOptions{.kernel = 3, .stride = 1, .padding = 1}}) {
      check_gradients(*device_, {far_apart({1, 5, 5, 4}, layout)},
                      [&](Tape&, const std::vector<Variable>& v) { return autograd::max_pool2d(v[0], options); },
                      {.step = 0.04});
      check_gradients(*device_, {leaf({1, 5, 5, 4}, 0, layout)},
                      [&](Tape&, const std::vector<Variable>& v) { return autograd::average_pool2d(v[0], options); });
    }
    check_gradients(*device_, {leaf({2, 5, 3, 4}, 0, layout)},
                    [](Tape&, const std::vector<Variable>& v) { return autograd::global_average_pool(v[0]); });
  });
}

/// One operator on a CPU worker with AVX2, two elsewhere.
TEST_P(Gradients, Conv2dAndMaxPool) {
  struct Case {
    Shape x, weight;
    int64_t padding;
  };
  for (const Case& c : {Case{{2, 1, 5, 4}, {20, 1, 3, 2}, 0}, Case{{2, 6, 4, 5}, {10, 6, 3, 3}, 1}}) {
    SCOPED_TRACE(c.weight.text());
    const std::vector<Leaf> leaves = {far_apart(c.x, Layout::nhwc),
                                      parameter(c.weight, 1, ops::conv2d_weight_layout(*device_, c.weight)),
                                      deciding_bias(c.weight[0])};
    for (const bool relu : {false, true})
      check_gradients(*device_, leaves,
                      [&](Tape&, const std::vector<Variable>& v) {
                        return autograd::conv2d_max_pool(
                            v[0], v[1], v[2], {.convolution = {.padding = c.padding}, .pool = {.relu = relu}});
                      },
                      {.step = 2e-3, .tolerance = 2e-3});
  }
}

TEST_P(Gradients, ElementwiseAndShape) {
  for_each_layout([&](Layout layout) {
    check_gradients(*device_, {far_apart({2, 5, 2, 3}, layout)},
                    [](Tape&, const std::vector<Variable>& v) { return autograd::relu(v[0]); });
    for (const auto& function : {ops::kGelu, ops::kTanh, ops::kSigmoid, ops::kSilu}) {
      check_gradients(
          *device_, {leaf({2, 5, 2, 3}, 0, layout)},
          [&](Tape&, const std::vector<Variable>& v) { return autograd::activation(v[0], function); }, kCurved);
    }
    for (const float slope : {0.f, 0.25f, 3.f})
      check_gradients(*device_, {far_apart({2, 5, 2, 3}, layout)}, [&](Tape&, const std::vector<Variable>& v) {
        return autograd::activation(v[0], ops::leaky_relu(slope));
      });
    check_gradients(*device_, {leaf({2, 5, 2, 3}, 0, layout), leaf({2, 5, 2, 3}, 1, Layout::nhwc)},
                    [](Tape&, const std::vector<Variable>& v) { return autograd::add(v[0], v[1]); });
    check_gradients(*device_, {leaf({2, 5, 2, 3}, 0, layout)},
                    [](Tape&, const std::vector<Variable>& v) { return autograd::flatten(v[0]); });
    check_gradients(*device_, {leaf({2, 5, 2, 3}, 0, layout)},
                    [](Tape&, const std::vector<Variable>& v) { return autograd::sum(v[0]); });
    check_gradients(*device_, {leaf({2, 5, 2, 3}, 0, layout)},
                    [](Tape&, const std::vector<Variable>& v) { return autograd::mean(v[0]); });
  });
}

TEST_P(Gradients, LayerNorm) {
  const std::vector<Leaf> leaves = {leaf({2, 3, 7}, 0), parameter({7}, 1), parameter({7}, 2), leaf({2, 3, 7}, 3)};
  const auto normalize = [](Tape&, const std::vector<Variable>& v) {
    return autograd::layer_norm(
        v[0], {.gamma = v[1], .beta = v[2], .residual = v.size() > 3 ? v[3] : Variable(), .epsilon = 1e-5f});
  };
  check_gradients(*device_, leaves, normalize, kCurved);
  check_gradients(*device_, {leaves[0], leaves[1], leaves[2]}, normalize, kCurved);
}

TEST_P(Gradients, AddPadded) {
  for_each_layout([&](Layout layout) {
    check_gradients(*device_, {leaf({2, 20, 2, 3}, 0, layout), leaf({2, 17, 2, 3}, 1, Layout::nhwc)},
                    [](Tape&, const std::vector<Variable>& v) { return autograd::add_padded(v[0], v[1]); });
  });
}

TEST_P(Gradients, Attention) {
  const Shape shape = {2, 5, 6};
  const Tensor lengths = labels_on(*device_, {5, 3});
  const ops::DropoutKey key{.seed = 1, .epoch = epoch_on(*device_, 0), .sample_ids = sample_ids_on(*device_, 4, 6)};
  for (const float dropout : {0.f, 0.4f}) {
    check_gradients(
        *device_, {leaf(shape, 0), leaf(shape, 1), leaf(shape, 2)},
        [&](Tape&, const std::vector<Variable>& v) {
          return autograd::attention({.query = v[0], .key = v[1], .value = v[2], .lengths = lengths},
                                     {.heads = 2, .dropout = dropout, .key = key});
        },
        kCurved);
  }
}

TEST_P(Gradients, Embedding) {
  const Tensor ids = labels_on(*device_, {3, 0, 3, 1});
  check_gradients(*device_, {parameter({5, 6}, 0)},
                  [&](Tape&, const std::vector<Variable>& v) { return autograd::embedding(v[0], ids); });
}

TEST_P(Gradients, Dropout) {
  const Tensor samples = sample_ids_on(*device_, 4, 6), epoch = epoch_on(*device_, 0);
  for_each_layout([&](Layout layout) {
    check_gradients(*device_, {leaf({2, 5, 2, 3}, 0, layout)}, [&](Tape&, const std::vector<Variable>& v) {
      return autograd::dropout(v[0], 0.4f, {.seed = 1, .epoch = epoch, .sample_ids = samples});
    });
  });
}

TEST_P(Gradients, AValueThatIsUsedTwice) {
  for_each_layout([&](Layout layout) {
    check_gradients(*device_, {leaf({2, 5, 4, 4}, 0, layout)}, [](Tape&, const std::vector<Variable>& v) {
      const Variable pooled = autograd::average_pool2d(v[0], {});
      return autograd::add(autograd::flatten(pooled), autograd::flatten(autograd::add(pooled, pooled)));
    });
  });
}

/// Attention reads a layer norm's output like this: in three linear layers, and in the sum after it.
TEST_P(Gradients, ALayerNormThatSeveralLinearLayersRead) {
  check_gradients(
      *device_,
      {leaf({2, 3, 6}, 0), parameter({6}, 1), parameter({6}, 2), parameter({6, 6}, 3), parameter({6, 6}, 4),
       parameter({6, 6}, 5)},
      [](Tape&, const std::vector<Variable>& v) {
        const Variable x = autograd::layer_norm(v[0], {.gamma = v[1], .beta = v[2], .residual = {}, .epsilon = 1e-5f});
        Variable sum = x;
        for (size_t i = 3; i < 6; ++i) sum = autograd::add(sum, autograd::linear(x, v[i], Variable()));
        return sum;
      },
      kCurved);
}

TEST_P(Gradients, CrossEntropy) {
  // The operator sums the loss in double precision, so that small steps can be resolved.
  constexpr double kScale = 1.0 / 3, kStep = 1e-3;
  const ops::CrossEntropyOptions options{.scale = kScale, .label_smoothing = 0.2};
  const Leaf logits{.shape = {3, 5}, .values = Formula{.scale = 3}.values(15)};
  const Tensor labels = labels_on(*device_, {0, -100, 2});
  const auto loss = [&](const std::vector<float>& values) {
    Tape tape(Tape::Mode::forget);
    const Variable losses = autograd::cross_entropy(tape.input(tensor_of(*device_, {3, 5}, values)), labels, options);
    double total = 0;
    for (const double value : stored_values<double>(losses.value())) total += value;
    return kScale * total;
  };
  Tape tape(Tape::Mode::record);
  const Variable x = tape.input(tensor_of(*device_, logits.shape, logits.values), true);
  const Variable losses = autograd::cross_entropy(x, labels, options);
  tape.backward(losses, losses.value());
  for (size_t i = 0; i < logits.values.size(); ++i) {
    std::vector<float> above = logits.values, below = logits.values;
    above[i] += static_cast<float>(kStep);
    below[i] -= static_cast<float>(kStep);
    const double slope = (loss(above) - loss(below)) / (double{above[i]} - below[i]);
    EXPECT_NEAR(values_of(x.gradient())[i], slope, 1e-6) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Gradients, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace
}  // namespace dptrain
