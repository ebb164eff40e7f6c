#pragma once

#include <string>
#include <vector>

#include "models/model_registry.h"

namespace dptrain::models {

/// The model whose parameters of these names, and of the modules that have them ("layer1" for "layer1.0.conv1.weight"),
/// aren't trained: they keep the values that they begin with, have no gradient, and are neither summed up, sent nor
/// updated. A tied parameter is frozen under either of its names. Building it throws 78, beginning with `where`, for an
/// entry that covers no parameter, and where none would be left to train.
ModelSpec with_frozen(ModelSpec spec, std::vector<std::string> entries, std::string where);

}  // namespace dptrain::models
