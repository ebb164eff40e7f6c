#pragma once

#include <filesystem>
#include <vector>

#include "nn/named_values.h"

namespace dptrain::train {

/// The weights that a training's own evaluations went by, out of a file that find_weights has found: the model's, or
/// their moving average where it lies beside them. Throws as read_safetensors and require_finite_tensors do.
std::vector<nn::NamedValues> read_evaluation_weights(const std::filesystem::path& file);

/// The same where there has to be an average. Throws 65 where there is none.
std::vector<nn::NamedValues> read_average_weights(const std::filesystem::path& file);

}  // namespace dptrain::train
