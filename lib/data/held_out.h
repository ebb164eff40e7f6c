#pragma once

#include <cstdint>

#include "data/dataset.h"

namespace dptrain {

/// Takes `samples` samples out of the training set, which become `validation`: a random choice, the same whatever the
/// seed of a training, so that runs with other seeds are validated by the same. Both parts keep the order of the whole.
/// Held out text is masked alike whatever the epoch. `samples` is over 0 and less than there are.
Datasets hold_out(const Datasets& data, int64_t samples);

}  // namespace dptrain
