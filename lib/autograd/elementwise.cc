#include "autograd/elementwise.h"

#include "autograd/tape.h"
#include "ops/add.h"
#include "ops/add_padded.h"
#include "ops/reorder.h"

namespace dptrain::autograd {

Variable activation(const Variable& x, const ops::Activation& function) {
  const Tensor y = ops::activation_forward(function, x.value());
  const bool by_output = ops::slope_follows_from_output(function.kind);
  return x.tape().record(y, {x},
                         [=, x = x.without_value(), kept = by_output ? y : x.value()](const Tensor& output_gradient) {
                           x.add_gradient(ops::activation_backward(function, kept, output_gradient));
                         });
}

Variable relu(const Variable& x) { return activation(x, ops::kRelu); }

Variable gelu(const Variable& x) { return activation(x, ops::kGelu); }

Variable tanh(const Variable& x) { return activation(x, ops::kTanh); }

Variable add(const Variable& a, const Variable& b) {
  const Tensor sum = ops::add(a.value(), ops::reorder(b.value(), a.value().layout()));
  const Layout b_layout = b.value().layout();
  return a.tape().record(sum, {a, b},
                         [b_layout, a = a.without_value(), b = b.without_value()](const Tensor& output_gradient) {
                           a.add_gradient(output_gradient);
                           b.add_gradient(ops::reorder(output_gradient, b_layout));
                         });
}

Variable add_padded(const Variable& y, const Variable& x) {
  const Layout y_layout = y.value().layout();
  const Layout x_layout = x.value().layout();
  return y.tape().record(ops::add_padded(y.value(), x.value()), {y, x},
                         [=, y = y.without_value(), x = x.without_value()](const Tensor& output_gradient) {
                           y.add_gradient(ops::reorder(output_gradient, y_layout));
                           x.add_first_channels(output_gradient, x_layout);
                         });
}

}  // namespace dptrain::autograd
