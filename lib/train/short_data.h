#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/experiment.h"

namespace dptrain::train {

/// What to tell where no step has as many samples as its batch.
std::optional<std::string> short_data_warning(const Experiment& experiment, int64_t samples);

}  // namespace dptrain::train
