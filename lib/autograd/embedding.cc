#include "autograd/embedding.h"

#include "autograd/tape.h"
#include "ops/embedding.h"
#include "ops/reorder.h"

namespace dptrain::autograd {

Variable embedding(const Variable& table, const Tensor& ids, int32_t untrained) {
  return table.tape().record(ops::embedding_forward(table.value(), ids), {table}, [=](const Tensor& output_gradient) {
    table.tape().in_weights_pass(output_gradient, [=](const Tensor& gradient) {
      const GradientSink sink = table.gradient_sink();
      ops::embedding_backward(ids, gradient, sink.target, {.accumulate = sink.accumulate, .untrained = untrained});
    });
  });
}

Variable rows_of(const Variable& x, const Tensor& ids) {
  const Shape shape = x.value().shape();
  const int64_t width = shape.dimensions().back();
  const Shape flat = {shape.elements() / width, width};
  const Tensor y = ops::embedding_forward(x.value().reshaped(flat), ids);
  return x.tape().record(y, {x}, [=, x = x.without_value()](const Tensor& output_gradient) {
    const Tensor sums = Tensor::empty(output_gradient.device(), flat);
    ops::embedding_backward(ids, output_gradient, sums, {});
    x.add_gradient(ops::converted(sums, {.dtype = output_gradient.dtype()}).reshaped(shape));
  });
}

}  // namespace dptrain::autograd
