#include "autograd/cross_entropy.h"

#include "autograd/tape.h"
#include "ops/cross_entropy.h"

namespace dptrain::autograd {

Variable cross_entropy(const Variable& logits, const Tensor& labels, double scale, const Tensor& factor) {
  return logits.tape().record(ops::cross_entropy_forward(logits.value(), labels), {logits}, [=](const Tensor&) {
    logits.add_gradient(ops::cross_entropy_backward(logits.value(), labels, scale, factor));
  });
}

}  // namespace dptrain::autograd
