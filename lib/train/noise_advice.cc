#include "train/noise_advice.h"

#include <fmt/format.h>

#include "base/digit_groups.h"
#include "train/metrics.h"

namespace dptrain::train {

// A batch of b samples makes the best step's progress times 1 / (1 + scale / b).
double steps_of_double_batch(double scale, double batch) { return (1 + scale / (2 * batch)) / (1 + scale / batch); }

std::optional<std::string> noise_advice(const EpochMetrics& metrics) {
  const parallel::GradientNoise& noise = metrics.train.score.noise;
  if (noise.samples == 0) return std::nullopt;
  const std::string batch = digit_groups(static_cast<double>(metrics.global_batch));
  const auto scale = noise.scale();
  if (!scale)
    return fmt::format("the gradient noise scale was more than batches of {} can show, as noise hid their gradient",
                       batch);
  return fmt::format(
      "the gradient noise scale was {} samples, by batches of {}: twice the batch would need {:.2f} times "
      "the steps",
      *scale < 10 ? fmt::format("{:.1f}", *scale) : digit_groups(*scale), batch,
      steps_of_double_batch(*scale, static_cast<double>(metrics.global_batch)));
}

}  // namespace dptrain::train
