#pragma once

#include <memory>
#include <utility>

#include "autograd/parameter.h"
#include "tensor/tensor.h"

namespace dptrain {

class Tape;

/// Where an operator's backward writes the gradient of one of its parameters.
struct GradientSink {
  Tensor target;
  bool accumulate = false;  ///< add to what stands there
};

/// A tensor that operators compute with, and its place on a tape. Copies share the state.
class Variable {
 public:
  Variable() = default;

  bool defined() const { return state_ != nullptr; }
  const Tensor& value() const { return state_->value; }
  Tape& tape() const { return *state_->tape; }
  /// Whether a gradient flows to it. A backward function computes only what is needed.
  bool requires_gradient() const { return state_->requires_gradient; }

  /// For backward functions: adds to the gradient of a value that an operator made (or of an input).
  void add_gradient(Tensor gradient) const;
  /// For backward functions: where the gradient of a parameter goes.
  GradientSink gradient_sink() const;
  /// The gradient gathered so far by an input of the tape; undefined where none came.
  const Tensor& gradient() const { return state_->gradient; }

 private:
  friend class Tape;
  struct State {
    Tape* tape = nullptr;
    Tensor value;
    Tensor gradient;
    bool requires_gradient = false;
    Parameter* parameter = nullptr;
  };
  explicit Variable(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace dptrain
