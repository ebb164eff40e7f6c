#include "autograd/variable.h"

#include "base/check.h"
#include "ops/add.h"
#include "ops/reorder.h"

namespace dptrain {

void Variable::add_gradient(Tensor gradient) const {
  if (!requires_gradient()) return;
  DPTRAIN_CHECK(place_->parameter == nullptr, "a parameter's gradient goes through its sink");
  DPTRAIN_CHECK(gradient.shape() == place_->shape, "a gradient {} of a value {}", gradient.text(),
                place_->shape.text());
  Tensor& sum = place_->gradient;
  if (!sum.defined()) {
    sum = std::move(gradient);
    return;
  }
  const Tensor added = ops::reorder(gradient, sum.layout());
  // A gradient may be shared: both inputs of an addition get the same one.
  if (sum.is_unique())
    ops::add_into(sum, added);
  else
    sum = ops::add(sum, added);
}

GradientSink Variable::gradient_sink() const {
  Parameter* parameter = place_->parameter;
  DPTRAIN_CHECK(parameter != nullptr, "a gradient sink of a value that is no parameter");
  const GradientSink sink{parameter->gradient_to_write(), parameter->has_gradient()};
  parameter->mark_gradient();
  return sink;
}

}  // namespace dptrain
