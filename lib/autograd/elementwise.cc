#include "autograd/elementwise.h"

#include "autograd/tape.h"
#include "ops/add.h"
#include "ops/add_padded.h"
#include "ops/gelu.h"
#include "ops/relu.h"
#include "ops/reorder.h"
#include "ops/tanh.h"

namespace dptrain::autograd {

Variable relu(const Variable& x) {
  const Tensor y = ops::relu_forward(x.value());
  return x.tape().record(y, {x}, [=, x = x.without_value()](const Tensor& output_gradient) {
    x.add_gradient(ops::relu_backward(y, output_gradient));
  });
}

Variable gelu(const Variable& x) {
  return x.tape().record(ops::gelu_forward(x.value()), {x}, [=](const Tensor& output_gradient) {
    x.add_gradient(ops::gelu_backward(x.value(), output_gradient));
  });
}

Variable tanh(const Variable& x) {
  const Tensor y = ops::tanh_forward(x.value());
  return x.tape().record(y, {x}, [=, x = x.without_value()](const Tensor& output_gradient) {
    x.add_gradient(ops::tanh_backward(y, output_gradient));
  });
}

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
