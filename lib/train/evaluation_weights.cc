#include "train/evaluation_weights.h"

#include <algorithm>

#include "train/safetensors.h"

namespace dptrain::train {

std::vector<nn::NamedValues> read_evaluation_weights(const std::filesystem::path& file) {
  auto weights = read_safetensors(file);
  std::error_code error;
  const auto average = file.parent_path() / "average.safetensors";
  if (file.filename() != "model.safetensors" || !std::filesystem::exists(average, error)) return weights;
  for (auto& averaged : read_safetensors(average)) {
    const auto found = std::ranges::find(weights, averaged.name, &nn::NamedValues::name);
    if (found != weights.end() && found->shape == averaged.shape) *found = std::move(averaged);
  }
  return weights;
}

}  // namespace dptrain::train
