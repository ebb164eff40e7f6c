#pragma once

#include <string>
#include <utility>

#include "tensor/tensor.h"

namespace dptrain {

/// What operators compute with in half precision: a copy of the parameter in it, or the f32 value itself (batch norms).
enum class Operand { copy, value };

/// A trainable tensor of a model: its value and its gradient, both views of one flat buffer each once the model has
/// been put on a device. Belongs to the rank thread of its replica.
class Parameter {
 public:
  Parameter(Shape shape, Layout layout, Operand operand = Operand::copy)
      : shape_(shape), layout_(layout), operand_kind_(operand) {}

  const Shape& shape() const { return shape_; }
  /// How value and gradient lie in memory.
  Layout layout() const { return layout_; }
  /// The name by which checkpoints know it: "layer1.0.conv1.weight".
  const std::string& name() const { return name_; }
  /// Position among the model's parameters, in the order of their first use.
  int index() const { return index_; }

  const Tensor& value() const { return value_; }
  /// What operators read: the value, or its copy in half precision.
  const Tensor& operand() const { return copy_.defined() ? copy_ : value_; }
  const Tensor& gradient() const { return gradient_; }
  /// Whether a backward pass has written the gradient since `forget_gradient`.
  bool has_gradient() const { return has_gradient_; }
  /// The next contribution overwrites the gradient instead of being added to it.
  void forget_gradient() { has_gradient_ = false; }
  void mark_gradient() { has_gradient_ = true; }

  void set_identity(std::string name, int index) {
    name_ = std::move(name);
    index_ = index;
  }
  void bind(Tensor value, Tensor gradient) {
    value_ = std::move(value);
    gradient_ = std::move(gradient);
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
  Tensor gradient_;
  Tensor copy_;
  bool has_gradient_ = false;
};

}  // namespace dptrain
