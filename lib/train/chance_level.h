#pragma once

#include <optional>
#include <string>

#include "data/dataset.h"
#include "train/metrics.h"

namespace dptrain::train {

/// What to tell of an epoch of asynchronous updates that has learned nothing, as they can fail to and nothing else
/// would say so: its training loss is that of guessing. Nothing where it isn't, or updates were in step.
std::optional<std::string> chance_warning(const EpochMetrics& metrics, const Dataset& trained_on);

}  // namespace dptrain::train
