#pragma once

#include <vector>

namespace dptrain::train {

/// How many of a model's units each of `stages` gets where a pipeline is verified: as many as the others, or, where one
/// would then have no parameter, which would hide what is wrong with its gradients, as many that have some; those
/// without follow the one before. `has_parameters`: by unit, at least as many as stages.
std::vector<int> verified_cut(const std::vector<bool>& has_parameters, int stages);

}  // namespace dptrain::train
