#pragma once

#include <cstdint>
#include <vector>

#include "data/batch_split.h"

namespace dptrain {

/// What an order is drawn from.
struct EpochKey {
  uint64_t seed = 0;
  int64_t epoch = 1;
  bool shuffle = true;
};

/// The order of an epoch's samples: a permutation keyed by (seed, epoch), or 0, 1, 2, ... where shuffling is off.
/// Nothing else changes it: not the devices, the threads, or the epochs drawn before.
std::vector<int64_t> epoch_order(int64_t samples, const EpochKey& key);

/// How the batches of an epoch are cut and shared out: batches into micro-batches, these into the split's parts.
struct BatchShares {
  int64_t batch_size = 0;
  int64_t micro_batches = 1;
  BatchSplit split;
  std::vector<int> parts_of_processes;  ///< how many parts each process has, in order
};

/// The order where each process trains on a part of the data set alone: contiguous, as long as what its parts take of
/// an epoch's batches, and shuffled inside, keyed by the process too. Of one process it is `epoch_order`.
std::vector<int64_t> partitioned_epoch_order(int64_t samples, const BatchShares& shares, const EpochKey& key);

}  // namespace dptrain
