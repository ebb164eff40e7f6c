#pragma once

#include <filesystem>
#include <vector>

#include "nn/named_values.h"

namespace dptrain::train {

/// The weights that a training's own evaluations went by, out of a .safetensors file, a checkpoint or a run directory:
/// the model's, or their moving average where the checkpoint has one. Throws as find_weights and read_safetensors do.
std::vector<nn::NamedValues> read_evaluation_weights(const std::filesystem::path& path);

}  // namespace dptrain::train
