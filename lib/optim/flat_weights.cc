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
  for (const Parameter* parameter : model.parameters())
    runs.push_back(
        {.elements = model.end_offset(*parameter) - model.offset(*parameter), .factors = parameter->update_factors()});
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
