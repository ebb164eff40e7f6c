#include "optim/plateau.h"

namespace dptrain::optim {

bool PlateauState::count(double value, const PlateauSpec& spec, Goal goal) {
  const auto is_better = [&](double than) {
    return goal == Goal::lowest ? value < than * (1 - spec.threshold) : value > than * (1 + spec.threshold);
  };
  if (!best || is_better(*best)) {
    best = value;
    since = 0;
    return false;
  }
  if (++since <= spec.patience) return false;
  since = 0;
  return true;
}

}  // namespace dptrain::optim
