#include "train/noise_bound.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/median.h"

namespace dptrain::train {
namespace {

constexpr double kNoiseToBound = 10;
/// Two measured traces may round a layer's sums alike, so a few roundings of f32 are always allowed.
constexpr double kLeastNoise = 8.0 / (1 << 24);
/// Half of 1, the difference of a missing gradient. Only the noise of many roundings is limited by it; that noise is
/// large if a few activations are near zero. Strategies round once, and for one rounding the margin of ten is always
/// kept. So a layer isn't all noise if its norm is at least twenty times what one rounding changes.
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
