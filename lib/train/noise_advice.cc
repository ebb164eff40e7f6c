#include "train/noise_advice.h"

#include <fmt/format.h>

#include "base/digit_groups.h"
#include "train/metrics.h"

namespace dptrain::train {

// A batch of b samples makes the best step's progress times 1 / (1 + scale / b).
double steps_of_double_batch(double scale, double batch) { return (1 + scale / (2 * batch)) / (1 + scale / batch); }

std::optional<std::string> noise_advice(const EpochMetrics& metrics) {
  const parallel::GradientNoise& noise = metrics.train.score.noise;
  if (noise.steps == 0) return std::nullopt;
  const std::string batch = digit_groups(static_cast<double>(metrics.global_batch));
  const auto scale = noise.scale();
  if (!scale)
    return fmt::format(
        "the gradient noise scale is beyond what batches of {} show; twice the batch would need half the "
        "steps",
        batch);
  return fmt::format(
      "the gradient noise scale is {} samples, by batches of {}; twice the batch would need {:.2f} times "
      "the steps",
      digit_groups(*scale), batch, steps_of_double_batch(*scale, static_cast<double>(metrics.global_batch)));
}

}  // namespace dptrain::train
