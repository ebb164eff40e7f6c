#include "train/split_setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dptrain::train {
namespace {

constexpr double kMostWeight = 1e6;
/// Weights are read with six decimals.
constexpr double kLeastWeight = 1e-6;

}  // namespace

SplitSetting read_split(ConfigReader& config, int devices) {
  if (config.word("split", "even", true)) return {};
  if (config.word("split", "auto", false)) return {.weights = {}, .measured = true};
  const auto weights = config.numbers("split", std::vector<double>(static_cast<size_t>(devices), 1),
                                      {.min = 0,
                                       .max = kMostWeight,
                                       .help = "how a batch is shared out among unlike devices: even, auto (by their "
                                               "measured speed), or a weight for each device, like [0.7, 0.3]"});
  if (config.describing()) return {};
  if (weights.size() != static_cast<size_t>(devices)) {
    config.mistake("split", fmt::format("expected even, auto or {} weights, one for each device", devices),
                   fmt::format("{}", weights.size()), "write for instance split: auto");
    return {};
  }
  if (std::ranges::max(weights) < kLeastWeight) {
    config.mistake("split", "expected a weight over 0", "none", "write for instance split: auto");
    return {};
  }
  return {.weights = BatchSplit::weighted(weights)};
}

BatchSplit split_of_speeds(const std::vector<double>& samples_per_s) {
  constexpr double kHundredths = 100;
  const double mean =
      std::accumulate(samples_per_s.begin(), samples_per_s.end(), 0.0) / static_cast<double>(samples_per_s.size());
  std::vector<int64_t> weights;
  for (const double speed : samples_per_s) weights.push_back(std::max(1LL, std::llround(kHundredths * speed / mean)));
  return BatchSplit(std::move(weights));
}

}  // namespace dptrain::train
