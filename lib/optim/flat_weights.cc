#include "optim/flat_weights.h"

#include <vector>

namespace dptrain::optim {

FlatWeights FlatWeights::of(const nn::Model& model) {
  return {.weights = model.weights(),
          .gradients = model.gradients(),
          .copies = model.weight_copies(),
          .groups = update_groups_of(model, model.device())};
}

ops::UpdateGroups update_groups_of(const nn::Model& model, Device& device) {
  std::vector<ops::UpdateRun> runs;
  const auto parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    // With what pads it.
    const int64_t end = i + 1 < parameters.size() ? model.offset(*parameters[i + 1]) : model.weights().elements();
    runs.push_back({.elements = end - model.offset(*parameters[i]), .factors = parameters[i]->update_factors()});
  }
  return ops::make_update_groups(device, runs);
}

Tensor range_like(const Tensor& range, const Tensor& whole, int64_t begin) {
  return whole.defined() ? whole.window(begin, range.shape(), Layout::plain) : Tensor();
}

FlatWeights FlatWeights::range(int64_t begin, int64_t end) const {
  const auto part = [&](const Tensor& whole) {
    return whole.defined() ? whole.window(begin, {end - begin}, Layout::plain) : Tensor();
  };
  return {.weights = part(weights),
          .gradients = part(gradients),
          .copies = part(copies),
          .groups = groups.range(begin, end - begin)};
}

}  // namespace dptrain::optim
