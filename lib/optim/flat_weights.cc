#include "optim/flat_weights.h"

namespace dptrain::optim {

FlatWeights FlatWeights::of(const nn::Model& model) {
  return {.weights = model.weights(), .gradients = model.gradients(), .copies = model.weight_copies()};
}

FlatWeights FlatWeights::range(int64_t begin, int64_t end) const {
  const auto part = [&](const Tensor& whole) { return whole.window(begin, {end - begin}, Layout::plain); };
  return {.weights = part(weights), .gradients = part(gradients), .copies = copies.defined() ? part(copies) : Tensor()};
}

}  // namespace dptrain::optim
