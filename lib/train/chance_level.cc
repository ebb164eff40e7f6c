#include "train/chance_level.h"

#include <fmt/format.h>

#include <cmath>

namespace dptrain::train {
namespace {

/// Of what guessing loses: whoever has learned anything in an epoch is below.
constexpr double kLossOfChance = 0.98;

}  // namespace

std::optional<std::string> chance_warning(const EpochMetrics& metrics, const Dataset& trained_on) {
  const auto* images = dynamic_cast<const ImageDataset*>(&trained_on);
  if (!metrics.staleness || images == nullptr) return std::nullopt;
  const double loss = metrics.train.score.mean_loss(), chance = std::log(static_cast<double>(images->classes()));
  if (loss < kLossOfChance * chance) return std::nullopt;
  return fmt::format(
      "epoch {}: the training loss, {:.3f}, is at chance level ({:.3f} for {} classes), with updates that were {:.1f} "
      "behind on average; lower learning_rate, set max_staleness, or use type: dist_sync",
      metrics.epoch, loss, chance, images->classes(), metrics.staleness->mean());
}

}  // namespace dptrain::train
