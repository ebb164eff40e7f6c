#pragma once

#include "parallel/strategy.h"

namespace dptrain::train {

/// Puts weights and running statistics so many roundings off, 2^-24 of themselves each: every second one above, the
/// others below, with a negative number the other way round. What a right training then computes otherwise is noise.
void nudge_weights(parallel::Strategy& strategy, int roundings);

}  // namespace dptrain::train
