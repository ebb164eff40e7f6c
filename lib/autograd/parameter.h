#pragma once

#include <functional>
#include <string>
#include <utility>

#include "ops/update_groups.h"
#include "tensor/tensor.h"

namespace dptrain {

/// What operators read when they compute in half precision: a half-precision copy of the parameter, or its f32 value
/// (batch norms).
enum class Operand { copy, value };

/// A tensor that a model learns: its value and its gradient. Both are views of flat buffers once the model has been
/// placed on a device. A frozen parameter keeps its value and has no gradient. A parameter belongs to the rank thread
/// of its replica.
class Parameter {
 public:
  Parameter(Shape shape, Layout layout, Operand operand = Operand::copy)
      : shape_(shape), layout_(layout), operand_kind_(operand) {}

  const Shape& shape() const { return shape_; }
  /// The memory layout of the value and the gradient.
  Layout layout() const { return layout_; }
  /// The parameter's name in checkpoints: "layer1.0.conv1.weight".
  const std::string& name() const { return name_; }
  /// Its position among the model's trained parameters, or among its frozen ones, in the order of first use.
  int index() const { return index_; }
  /// Excludes the parameter from training. To be called before the model is placed.
  void freeze() { is_frozen_ = true; }
  bool is_frozen() const { return is_frozen_; }
  /// Factors by which optimizers multiply the learning rate and the weight decay. To be set before an optimizer is
  /// made.
  const ops::UpdateFactors& update_factors() const { return update_factors_; }
  void set_update_factors(const ops::UpdateFactors& factors) { update_factors_ = factors; }

  /// The f32 value; undefined while it has no memory (see nn::Model::place_by_runs).
  const Tensor& value() const { return value_; }
  /// The tensor that operators read: the value, or its copy in half precision. If it is still on its way from other
  /// devices, the call blocks until it has arrived.
  const Tensor& operand() const {
    if (!value_.defined() && !copy_.defined() && take_value_) take_value_();
    return copy_.defined() ? copy_ : value_;
  }
  /// Whether operators read the f32 value, whatever type they compute in.
  bool is_read_as_value() const { return operand_kind_ == Operand::value; }
  /// The gradient; undefined while it has no memory (see nn::Model::hold_gradients_by_runs).
  const Tensor& gradient() const { return gradient_; }
  /// The gradient for an operator that is about to write it. If it has no memory, it gets some now.
  const Tensor& gradient_to_write() {
    if (!gradient_.defined()) take_gradient_();
    return gradient_;
  }
  /// Whether a backward pass has written the gradient since `forget_gradient`.
  bool has_gradient() const { return has_gradient_; }
  /// Makes the next contribution overwrite the gradient instead of being added to it.
  void forget_gradient() { has_gradient_ = false; }
  void mark_gradient() { has_gradient_ = true; }

  void set_identity(std::string name, int index) {
    name_ = std::move(name);
    index_ = index;
  }
  void bind(Tensor value) { value_ = std::move(value); }
  /// Drops the memory of the value and the copy. An operator that is about to read them calls `take`, which binds them
  /// to tensors that were requested earlier.
  void release_value(std::function<void()> take) {
    value_ = {};
    copy_ = {};
    take_value_ = std::move(take);
  }
  void bind_gradient(Tensor gradient) { gradient_ = std::move(gradient); }
  /// Drops the memory of the gradient. `take` binds the gradient to memory again when an operator is about to write it.
  void release_gradient(std::function<void()> take) {
    gradient_ = {};
    take_gradient_ = std::move(take);
  }
  /// Binds a copy in half precision. Whoever changes the value must keep the copy up to date.
  void bind_copy(Tensor copy) {
    if (operand_kind_ == Operand::copy) copy_ = std::move(copy);
  }

 private:
  Shape shape_;
  Layout layout_;
  Operand operand_kind_;
  std::string name_;
  int index_ = -1;
  Tensor value_;
  std::function<void()> take_value_;
  Tensor gradient_;
  std::function<void()> take_gradient_;
  Tensor copy_;
  bool has_gradient_ = false;
  bool is_frozen_ = false;
  ops::UpdateFactors update_factors_;
};

}  // namespace dptrain
