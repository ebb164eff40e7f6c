#pragma once

#include <cstdint>

#include "data/dataset.h"

namespace dptrain {

/// Moves `samples` samples from the training set to `validation`. The choice is random but independent of the seed of a
/// run, so that runs with other seeds use the same validation set. Both parts keep the order of the whole. Held-out
/// text is masked the same way in every epoch. `samples` must be over 0 and less than the size of the training set.
Datasets hold_out(const Datasets& data, int64_t samples);

}  // namespace dptrain
