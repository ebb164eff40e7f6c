#pragma once

#include <cstdint>
#include <optional>

#include "config_flags.h"
#include "train/blessing.h"

namespace dptrain::app {

// Both train the first steps of the flags' experiment now. Nothing where --dump-config has been done. They throw 78 for
// an experiment that measures before it begins, 130 or 143 where a signal has stopped them, and what a training throws.

/// With how far losses may be off, for which the steps are trained three times more; without `steps` 20, or as many as
/// the training has. Throws 64 for more than those, 79 where the training diverges.
std::optional<train::Blessing> bless_first_steps(const ConfigFlags& flags, const std::optional<int64_t>& steps);

/// Without that.
std::optional<train::Blessing> train_first_steps(const ConfigFlags& flags, int64_t steps);

}  // namespace dptrain::app
