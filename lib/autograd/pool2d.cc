#include "autograd/pool2d.h"

#include "autograd/elementwise.h"
#include "autograd/tape.h"
#include "ops/max_pool_place.h"

namespace dptrain::autograd {
namespace {

Variable pool2d(const Variable& x, ops::Pooling pooling, const ops::Pool2dOptions& options) {
  const ops::Pool2dResult result = ops::pool2d_forward(x.value(), pooling, options);
  return x.tape().record(
      result.y, {x},
      [=, form = TensorForm(x.value()), x = x.without_value(), workspace = result.workspace](const Tensor& incoming) {
        x.add_gradient(ops::pool2d_backward(form, workspace, incoming, pooling, options));
      });
}

}  // namespace

Variable max_pool2d(const Variable& x, const ops::Pool2dOptions& options) {
  if (!options.relu || options.kernel <= ops::kLargestWindowOfPlaces) return pool2d(x, ops::Pooling::max, options);
  ops::Pool2dOptions without_relu = options;
  without_relu.relu = false;
  return relu(pool2d(x, ops::Pooling::max, without_relu));
}

Variable average_pool2d(const Variable& x, const ops::Pool2dOptions& options) {
  return pool2d(x, ops::Pooling::average, options);
}

Variable global_average_pool(const Variable& x) {
  return x.tape().record(ops::global_average_pool_forward(x.value()), {x},
                         [form = TensorForm(x.value()), x = x.without_value()](const Tensor& output_gradient) {
                           x.add_gradient(ops::global_average_pool_backward(form, output_gradient));
                         });
}

}  // namespace dptrain::autograd
