#include "train/chance_level.h"

#include <fmt/format.h>

#include <cmath>

namespace dptrain::train {
namespace {

/// Of what guessing loses: whoever has learned anything in an epoch is below.
constexpr double kLossOfChance = 0.98;

struct Chance {
  double loss = 0;    ///< of who thinks all alike
  std::string among;  ///< "10 classes"
};

/// Nothing where it isn't known.
std::optional<Chance> chance_of(const Dataset& data) {
  if (const auto* images = dynamic_cast<const ImageDataset*>(&data))
    return Chance{std::log(static_cast<double>(images->classes())), fmt::format("{} classes", images->classes())};
  // Of a masked token all pieces, and of a pair whether its second line follows.
  if (const auto* text = dynamic_cast<const TextDataset*>(&data))
    return Chance{std::log(static_cast<double>(text->vocabulary_size())) + std::log(2.0),
                  fmt::format("{} pieces and next sentences", text->vocabulary_size())};
  return std::nullopt;
}

}  // namespace

std::optional<std::string> chance_warning(const EpochMetrics& metrics, const Dataset& trained_on) {
  const std::optional<Chance> chance = chance_of(trained_on);
  if (!metrics.staleness || !chance) return std::nullopt;
  const double loss = metrics.train.score.mean_loss();
  if (loss < kLossOfChance * chance->loss) return std::nullopt;
  const std::string at_chance = fmt::format("epoch {}: the training loss, {:.3f}, is at chance level ({:.3f} for {})",
                                            metrics.epoch, loss, chance->loss, chance->among);
  // Where nothing was behind, another type has what keeps it from learning, too.
  if (metrics.staleness->mean() == 0) return at_chance + ", though no update was behind; choose another learning_rate";
  return fmt::format(
      "{}, with updates that were {:.1f} behind on average; lower learning_rate, set max_staleness, or use type: "
      "dist_sync",
      at_chance, metrics.staleness->mean());
}

}  // namespace dptrain::train
