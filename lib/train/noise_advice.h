#pragma once

#include <optional>
#include <string>

namespace dptrain::train {

struct EpochMetrics;

/// The share of steps that twice a batch of `batch` samples needs for the same progress, if the gradient noise scale is
/// `scale` samples: between a half, and all of them (McCandlish et al., 2018, equation 2.11).
double steps_of_double_batch(double scale, double batch);

/// What an epoch's gradient noise scale was and says about the batch size: the rest of a sentence that begins with the
/// epoch, without a full stop. None if it wasn't measured.
std::optional<std::string> noise_advice(const EpochMetrics& metrics);

}  // namespace dptrain::train
