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
  bool accumulate = false;  ///< add to what stands there
};

/// A value as backward functions find it: kept since the forward pass, or computed again from what is kept.
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
  /// Of a use of a parameter, which holds no memory of it, as it is now: what its model computes with.
  const Tensor& value() const {
    return place_ != nullptr && place_->parameter != nullptr ? place_->parameter->operand() : value_;
  }
  Tape& tape() const { return *place_->tape; }
  /// Whether a gradient flows to it. A backward function computes only what is needed.
  bool requires_gradient() const { return place_->requires_gradient; }
  /// The same without the value: what a backward function keeps of an input that it doesn't read, so that the memory is
  /// free for others as soon as nobody reads it.
  Variable without_value() const { return Variable(Tensor(), place_); }

  /// The value for a backward function that reads it.
  SavedValue saved() const { return place_->recompute ? SavedValue(place_->recompute) : SavedValue(value()); }

  /// For backward functions: adds to the gradient of a value that an operator made (or of an input).
  void add_gradient(Tensor gradient) const;
  /// The same where the first channels of a gradient that has more, [N, C + P, H, W], are that of the value: they are
  /// copied out only where the operators that read and made it don't find them there. `layout`: of the copy.
  void add_first_channels(Tensor wider, Layout layout) const;
  /// For backward functions of operators that can add to a tensor in their own pass: what has been gathered so far, to
  /// be given back through add_gradient with more in it. Undefined where nothing has been, and where others hold it.
  Tensor take_sum() const;
  /// For backward functions of operators that can add first channels to what they give back: what add_first_channels
  /// has left, to be added by them. Undefined where that isn't all that has been gathered.
  Tensor take_wider() const;
  /// For backward functions: where the gradient of a parameter goes. Of a frozen one, to memory that is forgotten: for
  /// operators that compute it with what else they compute, or with the gradient of another parameter.
  GradientSink gradient_sink() const;
  /// The gradient gathered so far by an input of the tape; undefined where none came.
  const Tensor& gradient() const;

 private:
  friend class Tape;
  struct Place {
    Tape* tape = nullptr;
    Shape shape;
    ops::SummedGradient gradient;
    Tensor wider;  ///< its first channels are the gradient gathered so far; undefined where `gradient` isn't
    Layout layout = Layout::plain;  ///< in which they are copied out of `wider`
    bool sums_gradient = false;     ///< the operator that made it adds up the gradients of two readers itself
    bool requires_gradient = false;
    Parameter* parameter = nullptr;
    std::function<Tensor()> recompute;  ///< empty where backward functions keep the value
  };
  Variable(Tensor value, std::shared_ptr<Place> place) : value_(std::move(value)), place_(std::move(place)) {}

  /// What has been gathered so far, of the value's own shape.
  ops::SummedGradient& gathered() const;

  Tensor value_;
  std::shared_ptr<Place> place_;
};

}  // namespace dptrain
