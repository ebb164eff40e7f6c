#pragma once

#include <cstdint>
#include <optional>

#include "config_flags.h"
#include "train/blessing.h"

namespace dptrain::app {

/// The first steps of the flags' experiment, trained now, without bounds; of `bounded` with them, for which they are
/// trained three times more. Nothing where --dump-config has been done. Throws 78 for an experiment that measures
/// before it begins, 79 with bounds for one that diverges, 130 or 143 where a signal has stopped it, and what a
/// training throws.
std::optional<train::Blessing> train_first_steps(const ConfigFlags& flags, int64_t steps, bool bounded);

}  // namespace dptrain::app
