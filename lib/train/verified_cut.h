#pragma once

#include <vector>

namespace dptrain::train {

/// The number of a model's units in each of `stages` stages of a verified pipeline. By default units are dealt out
/// evenly. If a stage would then have no parameter, which would hide faults in its gradients, the units with parameters
/// are dealt out evenly instead, and each unit without parameters follows the one before. `has_parameters`: by unit, at
/// least `stages` of them.
std::vector<int> verified_cut(const std::vector<bool>& has_parameters, int stages);

}  // namespace dptrain::train
