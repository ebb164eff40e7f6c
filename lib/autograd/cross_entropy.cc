#include "autograd/cross_entropy.h"

#include "autograd/tape.h"

namespace dptrain::autograd {

Variable cross_entropy(const Variable& logits, const Tensor& labels, const ops::CrossEntropyOptions& options) {
  const Tensor losses = ops::cross_entropy_forward(logits.value(), labels, options);
  return logits.tape().record(losses, {logits}, [=](const Tensor&) {
    logits.add_gradient(ops::cross_entropy_backward(logits.value(), labels, options));
  });
}

}  // namespace dptrain::autograd
