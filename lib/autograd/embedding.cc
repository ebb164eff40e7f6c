#include "autograd/embedding.h"

#include "autograd/tape.h"
#include "ops/embedding.h"

namespace dptrain::autograd {

Variable embedding(const Variable& table, const Tensor& ids) {
  return table.tape().record(ops::embedding_forward(table.value(), ids), {table}, [=](const Tensor& output_gradient) {
    const GradientSink sink = table.gradient_sink();
    ops::embedding_backward(ids, output_gradient, sink.target, sink.accumulate);
  });
}

}  // namespace dptrain::autograd
