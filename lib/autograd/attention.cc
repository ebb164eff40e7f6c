#include "autograd/attention.h"

#include "autograd/tape.h"

namespace dptrain::autograd {

Variable attention(const AttentionArguments& a, const ops::AttentionOptions& options) {
  const ops::AttentionInputs in{
      .query = a.query.value(), .key = a.key.value(), .value = a.value.value(), .lengths = a.lengths};
  const ops::AttentionForward forward = ops::attention_forward(in, options);
  return a.query.tape().record(forward.y, {a.query, a.key, a.value}, [=](const Tensor& output_gradient) {
    const ops::AttentionGradients gradients = ops::attention_backward(in, forward, output_gradient, options);
    a.query.add_gradient(gradients.query);
    a.key.add_gradient(gradients.key);
    a.value.add_gradient(gradients.value);
  });
}

}  // namespace dptrain::autograd
