#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "autograd/parameter.h"
#include "ops/summed_gradient.h"
#include "tensor/tensor.h"

namespace dptrain {

class Tape;

/// Where an operator's backward writes the gradient of one of its parameters.
struct GradientSink {
  Tensor target;
  bool accumulate = false;  ///< add to the values in `target`
};

/// A value as backward functions find it: kept since the forward pass, or computed again from other values that were
/// kept.
class SavedValue {
 public:
  explicit SavedValue(Tensor kept) : kept_(std::move(kept)) {}
  explicit SavedValue(std::function<Tensor()> recompute) : recompute_(std::move(recompute)) {}

  Tensor value() const { return recompute_ ? recompute_() : kept_; }

 private:
  Tensor kept_;
  std::function<Tensor()> recompute_;
};

/// A tensor that operators compute with, and its place on a tape. Copies share both.
class Variable {
 public:
  Variable() = default;

  bool defined() const { return place_ != nullptr; }
  /// The tensor. A use of a parameter holds no memory of it: this is then what operators read of the parameter at this
  /// moment.
  const Tensor& value() const {
    return place_ != nullptr && place_->parameter != nullptr ? place_->parameter->operand() : value_;
  }
  Tape& tape() const { return *place_->tape; }
  /// Whether a gradient flows to this value. A backward function computes only the gradients that are needed.
  bool requires_gradient() const { return place_->requires_gradient; }
  /// This variable without its value: what a backward function keeps of an input that it doesn't read, so that the
  /// memory is free as soon as nobody reads it.
  Variable without_value() const { return Variable(Tensor(), place_); }

  /// The value for a backward function that reads it.
  SavedValue saved() const { return place_->recompute ? SavedValue(place_->recompute) : SavedValue(value()); }

  /// For backward functions: adds to the gradient of a value that an operator made (or of an input).
  void add_gradient(Tensor gradient) const;
  /// Like add_gradient, for a gradient with more channels, [N, C + P, H, W], whose first channels are that of this
  /// value. They are copied out, in `layout`, only if the operators that read and made the value can't use them in
  /// place.
  void add_first_channels(Tensor wider, Layout layout) const;
  /// For backward functions of operators that can add to a tensor in their own pass: takes the gradient gathered so
  /// far. The operator adds to it and returns it through add_gradient. Undefined if nothing has been gathered or if
  /// others hold the tensor.
  Tensor take_sum() const;
  /// For backward functions of operators that can add first channels to the gradient that they compute: takes the
  /// tensor that add_first_channels has left, for the operator to add. Undefined if there is none, or if other
  /// gradients have been gathered too.
  Tensor take_wider() const;
  /// For backward functions: where the gradient of a parameter goes. The sink of a frozen parameter is memory that is
  /// thrown away; it serves operators that compute this gradient together with other results.
  GradientSink gradient_sink() const;
  /// The gradient gathered so far by an input of the tape; undefined if none has come.
  const Tensor& gradient() const;

 private:
  friend class Tape;
  struct Place {
    Tape* tape = nullptr;
    Shape shape;
    ops::SummedGradient gradient;
    Tensor wider;                   ///< its first channels are the gradient gathered so far; undefined if they aren't
    Layout layout = Layout::plain;  ///< the layout in which the first channels of `wider` are copied out
    bool sums_gradient = false;     ///< the operator that made the value adds up the gradients of two readers itself
    bool requires_gradient = false;
    Parameter* parameter = nullptr;
    std::function<Tensor()> recompute;  ///< empty where backward functions keep the value
  };
  Variable(Tensor value, std::shared_ptr<Place> place) : value_(std::move(value)), place_(std::move(place)) {}

  /// The gradient gathered so far, in the value's own shape.
  ops::SummedGradient& gathered() const;

  Tensor value_;
  std::shared_ptr<Place> place_;
};

}  // namespace dptrain
