#include "autograd/flatten.h"

#include "autograd/tape.h"
#include "ops/reorder.h"
#include "tensor/tensor_form.h"

namespace dptrain::autograd {

Variable flatten(const Variable& x) {
  const Shape shape = x.value().shape();
  const Shape flat = {shape[0], shape[0] > 0 ? shape.elements() / shape[0] : shape.with_first(1).elements()};
  const Layout layout = x.value().layout();
  const Tensor y = ops::reorder(x.value(), Layout::plain).reshaped(flat);
  return x.tape().record(y, {x}, [=, x = x.without_value()](const Tensor& output_gradient) {
    x.add_gradient(ops::reorder(output_gradient.reshaped(shape), layout));
  });
}

Variable flatten_rows(const Variable& x) {
  const Shape shape = x.value().shape();
  const int64_t width = shape.dimensions().back();
  return x.tape().record(
      x.value().reshaped({shape.elements() / width, width}), {x},
      [shape, x = x.without_value()](const Tensor& incoming) { x.add_gradient(incoming.reshaped(shape)); });
}

Variable samples_of(const Variable& x, int64_t begin, int64_t end) {
  const TensorForm form = x.value();
  return x.tape().record(x.value().samples(begin, end), {x}, [=, x = x.without_value()](const Tensor& incoming) {
    const Tensor gradient = Tensor::zeros(form.device, form.shape, {.dtype = form.dtype, .layout = form.layout});
    ops::reorder_into(incoming, gradient.samples(begin, end));
    x.add_gradient(gradient);
  });
}

}  // namespace dptrain::autograd
