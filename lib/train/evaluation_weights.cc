#include "train/evaluation_weights.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "train/checkpoint_files.h"
#include "train/safetensors.h"

namespace dptrain::train {

namespace {

/// The file of the average beside a training run's weights; nothing for other files.
std::optional<std::filesystem::path> average_beside(const std::filesystem::path& file) {
  std::error_code error;
  const auto average = file.parent_path() / kAverage;
  if (file.filename() != kWeights || !std::filesystem::exists(average, error)) return std::nullopt;
  return average;
}

}  // namespace

std::vector<nn::NamedValues> read_evaluation_weights(const std::filesystem::path& file) {
  auto weights = read_safetensors(file);
  require_finite_tensors(weights, file.string());
  const auto average = average_beside(file);
  if (!average) return weights;
  const auto averages = read_safetensors(*average);
  require_finite_tensors(averages, average->string());
  for (const auto& averaged : averages) {
    const auto found = std::ranges::find(weights, averaged.name, &nn::NamedValues::name);
    if (found == weights.end() || found->shape != averaged.shape) continue;
    // The average has each parameter once, but the weights' file has a tensor twice if the model has it under two
    // names.
    const std::vector<float> own = std::exchange(found->values, averaged.values);
    for (auto& other : weights)
      if (other.name != averaged.name && other.shape == averaged.shape && other.values == own)
        other.values = averaged.values;
  }
  return weights;
}

std::vector<nn::NamedValues> read_average_weights(const std::filesystem::path& file) {
  if (!average_beside(file))
    throw Error(ExitCode::bad_data,
                Mistake{.where = file.string(),
                        .expected = "expected a moving average of the weights beside it, average.safetensors",
                        .got = "none",
                        .advice = "name a checkpoint of a run with ema, or leave out average"});
  return read_evaluation_weights(file);
}

}  // namespace dptrain::train
