#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/model_registry.h"

namespace dptrain::models {

/// Parameters that are updated differently from the rest, like PyTorch's parameter groups.
struct ParameterGroup {
  std::vector<std::string> of = {"*"};       ///< names of parameters, or of modules that contain them
  std::optional<int64_t> dimensions = {};    ///< only parameters with this many dimensions
  std::optional<double> learning_rate = {};  ///< the factor of their learning rate
  std::optional<double> weight_decay = {};
  std::string where = "parameter_groups";  ///< the beginning of a message about the group
};

/// Reads the key `parameter_groups`.
std::vector<ParameterGroup> read_parameter_groups(ConfigReader& config);

/// Applies these groups to a model; a later group overrides earlier ones. Building the model throws 78 for a name that
/// covers no parameter, for a group without a trained parameter, and for more than ops::UpdateGroups::kMost different
/// ways to update.
ModelSpec with_parameter_groups(ModelSpec spec, std::vector<ParameterGroup> groups);

}  // namespace dptrain::models
