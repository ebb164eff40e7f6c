#include "train/noise_bound.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/median.h"

namespace dptrain::train {
namespace {

constexpr double kNoiseToBound = 10;
/// What is tried may round a layer's sums alike: a few roundings of f32 are always allowed.
constexpr double kLeastNoise = 8.0 / (1 << 24);
/// Half of 1, which nothing in place of a gradient differs by. What is capped is the noise of many roundings alone,
/// which few activations near zero make large: strategies round once, and the margin of ten over that is left to them
/// whole. So a layer is no noise where its norm is twenty times what one rounding changes.
constexpr double kLargestBound = 0.5;

}  // namespace

NoiseBound noise_bound(double of_a_rounding, double of_many) {
  const double needed = std::max(kNoiseToBound * kLeastNoise, kNoiseToBound * of_a_rounding);
  if (needed > kLargestBound) return {.bound = std::max(needed, of_many), .all_noise = true};
  return {.bound = std::min(std::max(needed, of_many), kLargestBound)};
}

void allow_for_flips(std::span<const LayerDifference> layers, std::vector<NoiseBound>& bounds) {
  std::map<int64_t, std::vector<double>> of_steps;
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].pass == ComparedPass::backward && !bounds[i].all_noise)
      of_steps[layers[i].step].push_back(bounds[i].bound);
  std::map<int64_t, double> medians;
  for (const auto& [step, of_step] : of_steps) medians[step] = median(of_step);
  std::map<std::string, double> raised;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerDifference& layer = layers[i];
    NoiseBound& bound = bounds[i];
    if (bound.all_noise) continue;
    if (layer.pass == ComparedPass::backward) {
      const double least = std::max(bound.bound, medians.at(layer.step));
      raised[layer.layer] = std::max(raised[layer.layer], least / bound.bound);
      bound.bound = least;
    } else if (layer.pass == ComparedPass::weights && raised.contains(layer.layer)) {
      bound.bound = std::min(bound.bound * raised[layer.layer], kLargestBound);
    }
  }
}

}  // namespace dptrain::train
