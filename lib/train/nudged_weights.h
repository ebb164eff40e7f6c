#pragma once

#include "parallel/strategy.h"

namespace dptrain::train {

/// Moves weights and running statistics by `roundings` roundings, each 2^-24 of the value: every second value up, the
/// others down; a negative number reverses this. The resulting change in a correct training run is noise.
void nudge_weights(parallel::Strategy& strategy, int roundings);

}  // namespace dptrain::train
