#include "parallel/joined_state.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace dptrain::parallel {
namespace {

using Values = std::vector<nn::NamedValues>;

/// Moves elements [begin, end) of `from`, as far as there are so many.
void move_into(Values& to, Values& from, size_t begin, size_t end) {
  const auto at = [&](size_t i) { return from.begin() + static_cast<std::ptrdiff_t>(std::min(i, from.size())); };
  std::move(at(begin), at(end), std::back_inserter(to));
}

}  // namespace

TrainingState joined_state(std::vector<TrainingState> parts, const std::vector<const nn::Model*>& models) {
  TrainingState whole{.model = {}, .optimizer = {}, .average = {}, .loss_scale = parts.front().loss_scale};
  // A model's state: its parameters, its running statistics, then tied parameters under their further names.
  size_t kinds = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const size_t own = models[p]->own_parameters().size();
    move_into(whole.model, parts[p].model, 0, own);
    move_into(whole.average, parts[p].average, 0, own);
    if (own > 0) kinds = std::max(kinds, parts[p].optimizer.size() / own);
  }
  for (size_t p = 0; p < parts.size(); ++p) {
    const size_t own = models[p]->own_parameters().size();
    move_into(whole.model, parts[p].model, own, own + models[p]->states().size());
  }
  for (size_t p = 0; p < parts.size(); ++p)
    move_into(whole.model, parts[p].model, models[p]->own_parameters().size() + models[p]->states().size(),
              parts[p].model.size());
  // An optimizer's: one value after the other, of each all parameters.
  for (size_t kind = 0; kind < kinds; ++kind) {
    for (size_t p = 0; p < parts.size(); ++p) {
      const size_t own = models[p]->own_parameters().size();
      move_into(whole.optimizer, parts[p].optimizer, kind * own, (kind + 1) * own);
    }
  }
  return whole;
}

}  // namespace dptrain::parallel
