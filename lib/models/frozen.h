#pragma once

#include <string>
#include <vector>

#include "models/model_registry.h"

namespace dptrain::models {

/// Freezes parameters, named by themselves or by a module that contains them ("layer1" for "layer1.0.conv1.weight"). A
/// frozen parameter keeps the values that it begins with and has no gradient; it is never summed, sent or updated. A
/// tied parameter is frozen under either of its names. Building the model throws 78, beginning with `where`, for an
/// entry that covers no parameter, and if no parameter is left to train.
ModelSpec with_frozen(ModelSpec spec, std::vector<std::string> entries, std::string where);

}  // namespace dptrain::models
