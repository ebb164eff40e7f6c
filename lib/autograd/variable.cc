#include "autograd/variable.h"

#include <utility>

#include "autograd/tape.h"
#include "base/check.h"
#include "ops/add_padded.h"
#include "ops/reorder.h"

namespace dptrain {

void Variable::add_gradient(Tensor gradient) const {
  if (!requires_gradient()) return;
  DPTRAIN_CHECK(place_->parameter == nullptr, "a parameter's gradient goes through its sink");
  DPTRAIN_CHECK(gradient.shape() == place_->shape, "a gradient {} of a value {}", gradient.text(),
                place_->shape.text());
  // Gradients are added in the order in which they arrive, whoever adds them. A value at the beginning of a stage
  // therefore gets the same sum as within a stage.
  ops::SummedGradient& sum = gathered();
  if (!sum.first.defined()) {
    sum.first = std::move(gradient);
    return;
  }
  if (sum.second.defined()) sum = std::move(sum).sum();
  sum.second = std::move(gradient);
  if (!place_->sums_gradient) sum = std::move(sum).sum();
}

void Variable::add_first_channels(Tensor wider, Layout layout) const {
  if (!requires_gradient()) return;
  if (place_->wider.defined() || place_->gradient.first.defined() || place_->parameter != nullptr)
    return add_gradient(ops::reorder(ops::first_channels(wider, place_->shape), layout));
  place_->wider = std::move(wider);
  place_->layout = layout;
}

ops::SummedGradient& Variable::gathered() const {
  if (place_->wider.defined()) {
    const Tensor first = ops::first_channels(std::exchange(place_->wider, Tensor()), place_->shape);
    place_->gradient.first = ops::reorder(first, place_->layout);
  }
  return place_->gradient;
}

const Tensor& Variable::gradient() const { return gathered().first; }

Tensor Variable::take_wider() const { return std::exchange(place_->wider, Tensor()); }

Tensor Variable::take_sum() const {
  ops::SummedGradient& sum = gathered();
  if (sum.second.defined()) sum = std::move(sum).sum();
  if (!sum.first.defined() || !tape().holds_alone(sum.first)) return {};
  Tensor taken = std::exchange(sum.first, Tensor());
  if (taken.is_unique()) return taken;
  // A postponed computation of weight gradients still reads this tensor, so it must not change: the caller gets a copy.
  Tensor copy = Tensor::empty(taken.device(), taken.shape(), {.dtype = taken.dtype(), .layout = taken.layout()});
  copy.copy_from(taken);
  return copy;
}

GradientSink Variable::gradient_sink() const {
  Parameter* parameter = place_->parameter;
  DPTRAIN_CHECK(parameter != nullptr, "a gradient sink of a value that is no parameter");
  if (parameter->is_frozen())
    return {Tensor::empty(value().device(), parameter->shape(),
                          {.layout = parameter->layout(), .purpose = MemoryPurpose::workspace})};
  const GradientSink sink{parameter->gradient_to_write(), parameter->has_gradient()};
  parameter->mark_gradient();
  return sink;
}

}  // namespace dptrain
