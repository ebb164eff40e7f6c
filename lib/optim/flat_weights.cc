#include "optim/flat_weights.h"

namespace dptrain::optim {

FlatWeights FlatWeights::of(const nn::Model& model) {
  return {.weights = model.weights(), .gradients = model.gradients(), .copies = model.weight_copies()};
}

Tensor range_like(const Tensor& range, const Tensor& whole, int64_t begin) {
  return whole.defined() ? whole.window(begin, range.shape(), Layout::plain) : Tensor();
}

FlatWeights FlatWeights::range(int64_t begin, int64_t end) const {
  const auto part = [&](const Tensor& whole) {
    return whole.defined() ? whole.window(begin, {end - begin}, Layout::plain) : Tensor();
  };
  return {.weights = part(weights), .gradients = part(gradients), .copies = part(copies)};
}

}  // namespace dptrain::optim
