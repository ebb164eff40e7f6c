// Gradients past frozen parameters: all other gradients have the bits that they have when everything is trained, except
// biases that a GPU sums in another order. Where nothing before a layer is trained, no gradient is computed for its
// input.

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <optional>

#include "autograd/batch_norm.h"
#include "autograd/conv2d.h"
#include "autograd/layer_norm.h"
#include "autograd/linear.h"
#include "ops/conv2d.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"
#include "support/test_parameter.h"

namespace dptrain {
namespace {

using namespace testing;

/// An operator's output as a function of its input and parameters.
using Operator = std::function<Variable(const Variable& x, const std::vector<Variable>& parameters)>;

struct FrozenCase {
  std::string name;
  Shape x;
  std::vector<Shape> parameters;
  Operator apply;
  bool convolves = false;
};

void PrintTo(const FrozenCase& one, std::ostream* out) { *out << one.name; }

struct PassedBack {
  bool output_requires_gradient = false;
  std::optional<std::vector<float>> x;  ///< empty where no gradient came back
  std::vector<std::vector<float>> parameters;
  std::vector<bool> has_gradient;
};

/// The gradients of one pass; parameter i is frozen where bit i of `frozen` is set.
PassedBack pass_back(Device& device, const FrozenCase& one, unsigned frozen, bool x_requires_gradient = true) {
  Tape tape(Tape::Mode::record);
  const Layout layout = one.convolves ? Layout::nhwc : Layout::plain;
  const Variable x =
      tape.input(tensor_of(device, one.x, Formula{.tensor = 0}.values(one.x.elements()), layout), x_requires_gradient);
  std::deque<Parameter> parameters;
  std::vector<Variable> used;
  for (size_t i = 0; i < one.parameters.size(); ++i) {
    const Shape& shape = one.parameters[i];
    parameters.push_back(test_parameter(device, shape, Formula{.tensor = i + 1}.values(shape.elements()),
                                        shape.rank() == 4 ? ops::conv2d_weight_layout(device, shape) : Layout::plain));
    if ((frozen >> i & 1) != 0) parameters.back().freeze();
    used.push_back(tape.use(parameters.back()));
  }
  const Variable y = one.apply(x, used);
  tape.backward(y, formula_tensor(device, y.value().shape(), Formula{.tensor = 77}));
  PassedBack back{.output_requires_gradient = y.requires_gradient(), .x = {}, .parameters = {}, .has_gradient = {}};
  if (x.gradient().defined()) back.x = values_of(x.gradient());
  for (const Parameter& parameter : parameters) {
    back.parameters.push_back(values_of(parameter.gradient()));
    back.has_gradient.push_back(parameter.has_gradient());
  }
  return back;
}

std::vector<FrozenCase> frozen_cases() {
  const auto convolution = [](bool relu) {
    return [relu](const Variable& x, const std::vector<Variable>& p) {
      return autograd::conv2d(x, p[0], p[1], {.padding = 1, .relu = relu});
    };
  };
  const auto normalized = [](const Variable& x, const std::vector<Variable>& p) {
    Device& device = x.value().device();
    const Tensor zeros = Tensor::zeros(device, {16}), ones = tensor_of(device, {16}, std::vector<float>(16, 1.f));
    return autograd::batch_norm(x,
                                {.gamma = p[0],
                                 .beta = p[1],
                                 .running_mean = zeros,
                                 .running_variance = ones,
                                 .residual = {},
                                 .training = true},
                                {});
  };
  return {
      {.name = "conv2d",
       .x = {2, 16, 5, 4},
       .parameters = {{20, 16, 3, 3}, {20}},
       .apply = convolution(false),
       .convolves = true},
      {.name = "conv2d_relu",
       .x = {2, 16, 5, 4},
       .parameters = {{20, 16, 3, 3}, {20}},
       .apply = convolution(true),
       .convolves = true},
      {.name = "conv2d_max_pool",
       .x = {2, 6, 4, 5},
       .parameters = {{10, 6, 3, 3}, {10}},
       .apply =
           [](const Variable& x, const std::vector<Variable>& p) {
             return autograd::conv2d_max_pool(x, p[0], p[1], {.convolution = {.padding = 1}, .pool = {.relu = true}});
           },
       .convolves = true},
      {.name = "batch_norm", .x = {3, 16, 4, 5}, .parameters = {{16}, {16}}, .apply = normalized, .convolves = true},
      {.name = "linear_relu",
       .x = {3, 7},
       .parameters = {{5, 7}, {5}},
       .apply = [](const Variable& x,
                   const std::vector<Variable>& p) { return autograd::linear(x, p[0], p[1], {.relu = true}); }},
      {.name = "linear_gelu",
       .x = {2, 3, 7},
       .parameters = {{5, 7}, {5}},
       .apply = [](const Variable& x, const std::vector<Variable>& p) { return autograd::linear_gelu(x, p[0], p[1]); }},
      {.name = "layer_norm",
       .x = {6, 16},
       .parameters = {{16}, {16}},
       .apply = [](const Variable& x, const std::vector<Variable>& p) {
         return autograd::layer_norm(x, {.gamma = p[0], .beta = p[1], .residual = {}});
       }}};
}

void expect_near(const std::vector<float>& values, const std::vector<float>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-6 + 1e-6 * std::abs(expected[i]));
}

class FrozenParameters : public ::testing::TestWithParam<std::tuple<DeviceRow, FrozenCase>> {};

TEST_P(FrozenParameters, LeaveTheOtherGradientsAsTheyAre) {
  const auto& [row, one] = GetParam();
  const auto device = row.open();
  const PassedBack all = pass_back(*device, one, 0);
  for (unsigned frozen = 1; frozen < 1u << one.parameters.size(); ++frozen) {
    SCOPED_TRACE(frozen);
    const PassedBack some = pass_back(*device, one, frozen);
    EXPECT_EQ(some.x, all.x);
    for (size_t i = 0; i < one.parameters.size(); ++i) {
      const bool is_frozen = (frozen >> i & 1) != 0;
      EXPECT_EQ(some.has_gradient[i], !is_frozen);
      const auto expected = is_frozen ? std::vector<float>(all.parameters[i].size()) : all.parameters[i];
      // A GPU sums a bias's gradient within the product that makes the weight's gradient, or separately if that isn't
      // needed.
      const bool is_summed_elsewhere = device->kind() == DeviceKind::cuda && one.parameters[i].rank() == 1;
      if (is_summed_elsewhere)
        expect_near(some.parameters[i], expected);
      else
        EXPECT_EQ(some.parameters[i], expected);
    }
  }
}

TEST_P(FrozenParameters, EndTheWayBackWhereNothingBeforeIsTrained) {
  const auto& [row, one] = GetParam();
  const auto device = row.open();
  const unsigned both = (1u << one.parameters.size()) - 1;
  const PassedBack none = pass_back(*device, one, both, false);
  EXPECT_FALSE(none.output_requires_gradient);
  EXPECT_FALSE(none.x);
  EXPECT_EQ(none.has_gradient, std::vector<bool>(one.parameters.size()));
  // If the input needs no gradient either, each parameter still has its own.
  const PassedBack all = pass_back(*device, one, 0, false);
  for (size_t i = 0; i < one.parameters.size(); ++i)
    EXPECT_EQ(pass_back(*device, one, both & ~(1u << i), false).parameters[i], all.parameters[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Operators, FrozenParameters,
                         ::testing::Combine(::testing::ValuesIn(device_rows()), ::testing::ValuesIn(frozen_cases())),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + ("_" + std::get<1>(test.param).name);
                         });

}  // namespace
}  // namespace dptrain
