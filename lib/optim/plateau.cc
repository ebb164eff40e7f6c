#include "optim/plateau.h"

namespace dptrain::optim {

PlateauState after_evaluation(PlateauState state, const PlateauSpec& spec, Goal goal, double value) {
  const auto is_better = [&](double best) {
    return goal == Goal::lowest ? value < best * (1 - spec.threshold) : value > best * (1 + spec.threshold);
  };
  if (!state.best || is_better(*state.best)) {
    state.best = value;
    state.since = 0;
  } else if (++state.since > spec.patience) {
    ++state.reductions;
    state.since = 0;
  }
  return state;
}

}  // namespace dptrain::optim
