#include "autograd/variable.h"

#include <utility>

#include "base/check.h"

namespace dptrain {

void Variable::add_gradient(Tensor gradient) const {
  if (!requires_gradient()) return;
  DPTRAIN_CHECK(place_->parameter == nullptr, "a parameter's gradient goes through its sink");
  DPTRAIN_CHECK(gradient.shape() == place_->shape, "a gradient {} of a value {}", gradient.text(),
                place_->shape.text());
  // Added up in the order in which they come, whoever does it: a value that begins a stage has the sum that it would
  // have within one.
  ops::SummedGradient& sum = place_->gradient;
  if (!sum.first.defined()) {
    sum.first = std::move(gradient);
    return;
  }
  if (sum.second.defined()) sum = std::move(sum).sum();
  sum.second = std::move(gradient);
  if (!place_->sums_gradient) sum = std::move(sum).sum();
}

Tensor Variable::take_sum() const {
  ops::SummedGradient& sum = place_->gradient;
  if (sum.second.defined()) sum = std::move(sum).sum();
  return sum.first.defined() && sum.first.is_unique() ? std::exchange(sum.first, Tensor()) : Tensor();
}

GradientSink Variable::gradient_sink() const {
  Parameter* parameter = place_->parameter;
  DPTRAIN_CHECK(parameter != nullptr, "a gradient sink of a value that is no parameter");
  const GradientSink sink{parameter->gradient_to_write(), parameter->has_gradient()};
  parameter->mark_gradient();
  return sink;
}

}  // namespace dptrain
