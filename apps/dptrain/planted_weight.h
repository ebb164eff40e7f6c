#pragma once

#include <optional>

#include "parallel/planted_fault.h"

namespace dptrain::app {

/// What a test of `train` plants; nothing where its variable is empty. Throws 64 for what it doesn't say rightly.
std::optional<parallel::PlantedWeight> planted_weight();

}  // namespace dptrain::app
