#pragma once

#include <functional>
#include <string>
#include <utility>

#include "ops/update_groups.h"
#include "tensor/tensor.h"

namespace dptrain {

/// What operators compute with in half precision: a copy of the parameter in it, or the f32 value itself (batch norms).
enum class Operand { copy, value };

/// A tensor that a model learns: its value and its gradient, both views of flat buffers once the model has been put on
/// a device. A frozen one keeps its value and has no gradient. Belongs to the rank thread of its replica.
class Parameter {
 public:
  Parameter(Shape shape, Layout layout, Operand operand = Operand::copy)
      : shape_(shape), layout_(layout), operand_kind_(operand) {}

  const Shape& shape() const { return shape_; }
  /// How value and gradient lie in memory.
  Layout layout() const { return layout_; }
  /// The name by which checkpoints know it: "layer1.0.conv1.weight".
  const std::string& name() const { return name_; }
  /// Position among the model's trained parameters, or its frozen ones, in the order of their first use.
  int index() const { return index_; }
  /// It isn't trained. Said before the model is placed.
  void freeze() { is_frozen_ = true; }
  bool is_frozen() const { return is_frozen_; }
  /// What optimizers multiply the learning rate and the weight decay by. Said before one is made.
  const ops::UpdateFactors& update_factors() const { return update_factors_; }
  void set_update_factors(const ops::UpdateFactors& factors) { update_factors_ = factors; }

  /// Undefined while it has no memory: see nn::Model::place_by_runs.
  const Tensor& value() const { return value_; }
  /// What operators read: the value, or its copy in half precision. Where that is on its way from other devices it
  /// blocks until it is there.
  const Tensor& operand() const {
    if (!value_.defined() && !copy_.defined() && take_value_) take_value_();
    return copy_.defined() ? copy_ : value_;
  }
  /// Whether operators read the f32 value whatever they compute in.
  bool is_read_as_value() const { return operand_kind_ == Operand::value; }
  /// Undefined while it has no memory: see nn::Model::hold_gradients_by_runs.
  const Tensor& gradient() const { return gradient_; }
  /// The same for whoever is about to write it: has memory from here on.
  const Tensor& gradient_to_write() {
    if (!gradient_.defined()) take_gradient_();
    return gradient_;
  }
  /// Whether a backward pass has written the gradient since `forget_gradient`.
  bool has_gradient() const { return has_gradient_; }
  /// The next contribution overwrites the gradient instead of being added to it.
  void forget_gradient() { has_gradient_ = false; }
  void mark_gradient() { has_gradient_ = true; }

  void set_identity(std::string name, int index) {
    name_ = std::move(name);
    index_ = index;
  }
  void bind(Tensor value) { value_ = std::move(value); }
  /// Value and copy have no memory from now on. An operator that is about to read them calls `take`, which binds them
  /// to what somebody has asked for before.
  void release_value(std::function<void()> take) {
    value_ = {};
    copy_ = {};
    take_value_ = std::move(take);
  }
  void bind_gradient(Tensor gradient) { gradient_ = std::move(gradient); }
  /// The gradient has no memory from now on; `take` binds it to some when it is about to be written.
  void release_gradient(std::function<void()> take) {
    gradient_ = {};
    take_gradient_ = std::move(take);
  }
  /// A copy in half precision, which whoever changes the value keeps up to date.
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
