#include "autograd/dropout.h"

#include "autograd/tape.h"
#include "ops/reorder.h"

namespace dptrain::autograd {

Variable dropout(const Variable& x, float probability, const ops::DropoutKey& key) {
  const ops::DropoutResult result = ops::dropout_forward(x.value(), probability, key);
  return x.tape().record(result.y, {x}, [=, x = x.without_value(), mask = result.mask](const Tensor& output_gradient) {
    x.add_gradient(ops::dropout_backward(mask, ops::reorder(output_gradient, mask.layout()), probability));
  });
}

}  // namespace dptrain::autograd
