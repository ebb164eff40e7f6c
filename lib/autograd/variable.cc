#include "autograd/variable.h"

#include <utility>

#include "base/check.h"

namespace dptrain {

void Variable::add_gradient(Tensor gradient) const {
  if (!requires_gradient()) return;
  DPTRAIN_CHECK(place_->parameter == nullptr, "a parameter's gradient goes through its sink");
  DPTRAIN_CHECK(gradient.shape() == place_->shape, "a gradient {} of a value {}", gradient.text(),
                place_->shape.text());
  auto& [first, second] = place_->gradient;
  if (!first.defined())
    first = std::move(gradient);
  else if (place_->sums_gradient && !second.defined())
    second = std::move(gradient);
  else
    first = ops::SummedGradient(std::move(first), std::move(gradient)).sum();
}

Tensor Variable::take_sum() const {
  Tensor& latest = place_->sums_gradient ? place_->gradient.second : place_->gradient.first;
  return latest.defined() && latest.is_unique() ? std::exchange(latest, Tensor()) : Tensor();
}

GradientSink Variable::gradient_sink() const {
  Parameter* parameter = place_->parameter;
  DPTRAIN_CHECK(parameter != nullptr, "a gradient sink of a value that is no parameter");
  const GradientSink sink{parameter->gradient_to_write(), parameter->has_gradient()};
  parameter->mark_gradient();
  return sink;
}

}  // namespace dptrain
