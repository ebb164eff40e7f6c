#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/model_registry.h"

namespace dptrain::models {

/// Parameters that are updated otherwise than the rest: PyTorch's parameter groups.
struct ParameterGroup {
  std::vector<std::string> of = {"*"};       ///< names of theirs, or the modules' in front of these
  std::optional<int64_t> dimensions = {};    ///< those alone that have so many
  std::optional<double> learning_rate = {};  ///< what theirs is multiplied by
  std::optional<double> weight_decay = {};
  std::string where = "parameter_groups";  ///< the beginning of a message about it
};

/// Reads the key `parameter_groups`.
std::vector<ParameterGroup> read_parameter_groups(ConfigReader& config);

/// The model with these groups. What a group sets prevails over what those before it set. Building it throws 78 for a
/// name that covers no parameter, for a group that has no trained one, and for more than ops::UpdateGroups::kMost
/// different ways to update.
ModelSpec with_parameter_groups(ModelSpec spec, std::vector<ParameterGroup> groups);

}  // namespace dptrain::models
