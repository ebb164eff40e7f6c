#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <vector>

#include "autograd/tape.h"
#include "support/device_rows.h"
#include "support/test_parameter.h"

namespace dptrain::testing {

/// An input of a function whose gradient is checked: a value of the tape, or a parameter.
struct Leaf {
  Shape shape;
  std::vector<float> values;
  Layout layout = Layout::plain;
  bool parameter = false;
};

/// A function of the leaves, recorded on a tape.
using TapeFunction = std::function<Variable(Tape&, const std::vector<Variable>& leaves)>;

struct GradientCheck {
  /// A large step suits functions that are linear in each leaf: they have no truncation error, and rounding counts
  /// less.
  double step = 0.5;
  double tolerance = 1e-4;  ///< relative to the largest gradient of the leaf
};

/// One evaluation. `total` is the sum of the output's elements times fixed weights; with `mode` record, its gradients
/// are computed too.
class TapeRun {
 public:
  TapeRun(Device& device, const std::vector<Leaf>& leaves, const TapeFunction& function, Tape::Mode mode)
      : tape_(mode) {
    for (const Leaf& leaf : leaves) {
      if (leaf.parameter) {
        parameters_.push_back(test_parameter(device, leaf.shape, leaf.values, leaf.layout));
        variables_.push_back(tape_.use(parameters_.back()));
      } else {
        variables_.push_back(tape_.input(tensor_of(device, leaf.shape, leaf.values, leaf.layout), true));
      }
    }
    const Variable output = function(tape_, variables_);
    const Shape& shape = output.value().shape();
    const Formula weights{.tensor = 77};
    const std::vector<float> y = values_of(output.value()), w = weights.values(shape.elements());
    for (size_t i = 0; i < y.size(); ++i) total += double{w[i]} * y[i];
    if (mode == Tape::Mode::record) tape_.backward(output, formula_tensor(device, shape, weights));
    auto parameter = parameters_.begin();
    for (size_t i = 0; i < leaves.size() && mode == Tape::Mode::record; ++i)
      gradients.push_back(values_of(leaves[i].parameter ? (parameter++)->gradient() : variables_[i].gradient()));
  }

  double total = 0;
  std::vector<std::vector<float>> gradients;

 private:
  Tape tape_;
  std::deque<Parameter> parameters_;
  std::vector<Variable> variables_;
};

/// Compares the backward pass with central differences, at up to 48 elements of every leaf.
inline void check_gradients(Device& device, std::vector<Leaf> leaves, const TapeFunction& function,
                            const GradientCheck& check = {}) {
  const TapeRun recorded(device, leaves, function, Tape::Mode::record);
  for (size_t k = 0; k < leaves.size(); ++k) {
    const std::vector<float>& gradient = recorded.gradients[k];
    ASSERT_EQ(gradient.size(), leaves[k].values.size());
    double largest = 0;
    for (const float value : gradient) largest = std::max(largest, std::abs(double{value}));
    EXPECT_GT(largest, 0) << "leaf " << k << " has no gradient at all";
    for (size_t i = 0; i < gradient.size(); i += (gradient.size() + 47) / 48) {
      float& value = leaves[k].values[i];
      const float centre = value;
      const auto at = [&](double distance) {
        value = static_cast<float>(centre + distance);
        return std::pair(TapeRun(device, leaves, function, Tape::Mode::forget).total, double{value});
      };
      const auto [above, x_above] = at(check.step);
      const auto [below, x_below] = at(-check.step);
      value = centre;
      EXPECT_NEAR(gradient[i], (above - below) / (x_above - x_below), check.tolerance * largest)
          << "leaf " << k << ", element " << i;
    }
  }
}

}  // namespace dptrain::testing
