#include "autograd/reduce.h"

#include "autograd/tape.h"
#include "ops/reduce.h"

namespace dptrain::autograd {
namespace {

Variable reduce(const Variable& x, ops::Reduction reduction) {
  return x.tape().record(ops::reduce_forward(x.value(), reduction), {x},
                         [=, form = TensorForm(x.value()), x = x.without_value()](const Tensor& output_gradient) {
                           x.add_gradient(ops::reduce_backward(form, output_gradient, reduction));
                         });
}

}  // namespace

Variable sum(const Variable& x) { return reduce(x, ops::Reduction::sum); }

Variable mean(const Variable& x) { return reduce(x, ops::Reduction::mean); }

}  // namespace dptrain::autograd
