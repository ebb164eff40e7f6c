#pragma once

#include <filesystem>
#include <vector>

#include "nn/named_values.h"

namespace dptrain::train {

/// Reads the weights that a training run's own evaluations used, from a file that find_weights has found: the model's
/// weights, or their moving average if it is beside them. Throws as read_safetensors and require_finite_tensors do.
std::vector<nn::NamedValues> read_evaluation_weights(const std::filesystem::path& file);

/// Reads the moving average of the weights. Throws as read_evaluation_weights does, and 65 if there is no average.
std::vector<nn::NamedValues> read_average_weights(const std::filesystem::path& file);

}  // namespace dptrain::train
