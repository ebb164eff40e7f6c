#include "train/evaluation_weights.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "train/safetensors.h"

namespace dptrain::train {

std::vector<nn::NamedValues> read_evaluation_weights(const std::filesystem::path& file) {
  auto weights = read_safetensors(file);
  require_finite(weights, file.string());
  std::error_code error;
  const auto average = file.parent_path() / "average.safetensors";
  if (file.filename() != "model.safetensors" || !std::filesystem::exists(average, error)) return weights;
  const auto averages = read_safetensors(average);
  require_finite(averages, average.string());
  for (const auto& averaged : averages) {
    const auto found = std::ranges::find(weights, averaged.name, &nn::NamedValues::name);
    if (found == weights.end() || found->shape != averaged.shape) continue;
    // The average has each parameter once. A tensor that the model has under two names lies in its file twice.
    const std::vector<float> own = std::exchange(found->values, averaged.values);
    for (auto& other : weights)
      if (other.name != averaged.name && other.shape == averaged.shape && other.values == own)
        other.values = averaged.values;
  }
  return weights;
}

}  // namespace dptrain::train
