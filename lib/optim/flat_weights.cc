#include "optim/flat_weights.h"

#include <algorithm>

namespace dptrain::optim {

FlatWeights FlatWeights::of(const nn::Model& model) {
  return {.weights = model.weights(),
          .gradients = model.gradients(),
          .copies = model.weight_copies(),
          .runs = weight_runs_of(model),
          .parameters = std::ssize(model.parameters())};
}

std::vector<WeightRun> weight_runs_of(const nn::Model& model) {
  std::vector<WeightRun> runs;
  for (const Parameter* parameter : model.parameters())
    runs.push_back({.parameter = parameter->index(),
                    .elements = model.end_offset(*parameter) - model.offset(*parameter),
                    .dimensions = parameter->shape().rank(),
                    .factors = parameter->update_factors()});
  return runs;
}

ops::UpdateGroups update_groups_of(const FlatWeights& flat) {
  std::vector<ops::UpdateRun> runs;
  for (const WeightRun& run : flat.runs) runs.push_back({.elements = run.elements, .factors = run.factors});
  return ops::make_update_groups(flat.weights.device(), runs);
}

ops::TensorTable tensor_table_of(const FlatWeights& flat, bool adapts_vectors) {
  std::vector<ops::TensorRun> runs;
  for (const WeightRun& run : flat.runs)
    runs.push_back({.tensor = run.parameter,
                    .elements = run.elements,
                    .factors = run.factors,
                    .adapts = adapts_vectors || run.dimensions > 1});
  return ops::make_tensor_table(flat.weights.device(), runs, flat.parameters);
}

Tensor zeros_like_weights(const FlatWeights& flat) {
  return Tensor::zeros(flat.weights.device(), flat.weights.shape(), {.purpose = MemoryPurpose::optimizer});
}

Tensor range_like(const Tensor& range, const Tensor& whole, int64_t begin) {
  return whole.defined() ? whole.window(begin, range.shape(), Layout::plain) : Tensor();
}

FlatWeights FlatWeights::range(int64_t begin, int64_t end) const {
  const auto part = [&](const Tensor& whole) {
    return whole.defined() ? whole.window(begin, {end - begin}, Layout::plain) : Tensor();
  };
  FlatWeights some{.weights = part(weights),
                   .gradients = part(gradients),
                   .copies = part(copies),
                   .runs = {},
                   .parameters = parameters};
  int64_t at = 0;
  for (const WeightRun& run : runs) {
    const int64_t first = std::max(at, begin), last = std::min(at += run.elements, end);
    if (first >= last) continue;
    some.runs.push_back(run);
    some.runs.back().elements = last - first;
  }
  return some;
}

}  // namespace dptrain::optim
