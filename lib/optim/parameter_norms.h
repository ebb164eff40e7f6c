#pragma once

#include "optim/optimizer.h"

namespace dptrain::optim {

/// The sums of squares, by parameter, that the steps of a measuring optimizer need; empty for other optimizers.
class ParameterNorms {
 public:
  ParameterNorms() = default;
  /// For a model with `parameters` parameters.
  ParameterNorms(const OptimizerSpec& optimizer, Device& device, int64_t parameters) {
    if (optimizer.measures) squares_ = ops::no_tensor_squares(device, parameters);
  }

  /// Gives the step the sums that `add(squares)` makes from zeros: what all optimizers of the model have measured.
  template <class Add>
  void measure(OptimizerStep& step, const Add& add) const {
    if (!squares_.defined()) return;
    squares_.fill_zero();
    add(squares_);
    step.squares = squares_;
  }

 private:
  Tensor squares_;
};

}  // namespace dptrain::optim
