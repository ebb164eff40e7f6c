#pragma once

#include <cstdint>
#include <vector>

namespace dptrain {

/// The order of an epoch's samples: a permutation keyed by (seed, epoch), or 0, 1, 2, ... where shuffling is off.
/// Nothing else changes it: not the devices, the threads, or the epochs drawn before.
std::vector<int64_t> epoch_order(int64_t samples, uint64_t seed, int64_t epoch, bool shuffle);

}  // namespace dptrain
