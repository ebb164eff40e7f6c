#pragma once

#include <cstdint>
#include <optional>

#include "config_flags.h"
#include "train/blessing.h"

namespace dptrain::app {

/// Fewer steps show no effect of a changed learning rate or momentum on a loss.
inline constexpr int64_t kFewestBlessedSteps = 3;

// Both functions train the first steps of the experiment that the flags describe. They return nothing if --dump-config
// has already printed the configuration. They throw 78 for an experiment that measures before it begins, 130 or 143 if
// a signal stops them, and whatever a training run throws.

/// Also finds how far losses may deviate, which takes three more runs of the same steps. `steps` defaults to 20, or to
/// the length of the training if that is shorter. Throws 64 if `steps` is larger than the training, 78 if the training
/// has fewer than kFewestBlessedSteps, 79 if it diverges.
std::optional<train::Blessing> bless_first_steps(const ConfigFlags& flags, const std::optional<int64_t>& steps);

/// Trains the steps once, without finding how far losses may deviate.
std::optional<train::Blessing> train_first_steps(const ConfigFlags& flags, int64_t steps);

}  // namespace dptrain::app
