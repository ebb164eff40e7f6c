#include "train/chance_level.h"

#include <fmt/format.h>

#include <cmath>

namespace dptrain::train {
namespace {

/// Share of the loss of guessing. A model with asynchronous updates that has learned anything in an epoch is below it.
constexpr double kLossOfChance = 0.98;
/// The share for synchronous updates. They learn from the first step on, even if slowly; a dead model's loss doesn't
/// move.
constexpr double kLossOfChanceInStep = 0.999;
/// Before this step the loss of synchronous updates isn't judged: nets with batch norms begin far above chance.
constexpr int64_t kFirstSteps = 50;
/// With more label smoothing, a perfect model's loss is close to that of guessing.
constexpr double kMuchSmoothing = 0.5;
/// Share of the loss of guessing. A model that ends above it has a wrong learning rate.
constexpr double kLossFarAboveChance = 1.5;

}  // namespace

ChanceWatch::ChanceWatch(const Dataset& trained_on, double label_smoothing) {
  if (label_smoothing < kMuchSmoothing) chance_ = chance_of(trained_on);
}

std::optional<ChanceWatch::Chance> ChanceWatch::chance_of(const Dataset& data) {
  if (const auto* images = dynamic_cast<const ImageDataset*>(&data))
    return Chance{std::log(static_cast<double>(images->classes())), fmt::format("{} classes", images->classes())};
  // The model guesses any piece for a masked token, and whether the second line follows for each pair.
  if (const auto* text = dynamic_cast<const TextDataset*>(&data))
    return Chance{std::log(static_cast<double>(text->vocabulary_size())) + std::log(2.0),
                  fmt::format("{} pieces and next sentences", text->vocabulary_size())};
  return std::nullopt;
}

std::optional<std::string> ChanceWatch::warning_after(const EpochMetrics& metrics, bool is_last) {
  if (!chance_) return std::nullopt;
  const double loss = metrics.train.score.mean_loss();
  if (!metrics.staleness && metrics.step < kFirstSteps) return std::nullopt;
  if (loss < (metrics.staleness ? kLossOfChance : kLossOfChanceInStep) * chance_->loss) {
    epochs_ = 0;
    return std::nullopt;
  }
  ++epochs_;
  if (epochs_ > 2 && !is_last) return std::nullopt;  // already reported
  const bool is_far_above = loss > kLossFarAboveChance * chance_->loss;
  if (epochs_ == 1 && !(is_last && (metrics.staleness || is_far_above))) return std::nullopt;
  const std::string at_chance = fmt::format(
      "epoch {}: the training loss, {}, {} {} ({:.3f} for {})", metrics.epoch,
      loss < 1000 ? fmt::format("{:.3f}", loss) : fmt::format("{:.3g}", loss), epochs_ == 1 ? "is" : "stays",
      is_far_above ? "far above chance level" : "at chance level", chance_->loss, chance_->among);
  if (!metrics.staleness)
    return at_chance + (is_far_above ? "; lower learning_rate" : "; choose another learning_rate");
  // If no update was late, another store type would have the same problem.
  if (metrics.staleness->mean() == 0) return at_chance + ", though no update was late; choose another learning_rate";
  return fmt::format(
      "{}, with gradients of weights that were {:.1f} updates old on average; lower learning_rate or max_staleness, or "
      "use type: dist_sync",
      at_chance, metrics.staleness->mean());
}

}  // namespace dptrain::train
