#pragma once

#include <cstdint>
#include <vector>

#include "data/batch_split.h"

namespace dptrain {

/// The key from which an order is drawn.
struct EpochKey {
  uint64_t seed = 0;
  int64_t epoch = 1;
  bool shuffle = true;
};

/// The order of an epoch's samples: a permutation keyed by (seed, epoch), or 0, 1, 2, ... without shuffling. Nothing
/// else changes it: not the devices, the threads, or the epochs drawn before.
std::vector<int64_t> epoch_order(int64_t samples, const EpochKey& key);

/// How the batches of an epoch are divided: batches into micro-batches, and these into the parts of the split.
struct BatchShares {
  int64_t batch_size = 0;
  int64_t micro_batches = 1;
  BatchSplit split;
  std::vector<int> parts_of_processes;  ///< how many parts each process has, in order
};

/// The order if each process trains only on its own part of the data set. The part of a process is contiguous and as
/// long as what its parts take of an epoch's batches. It is shuffled inside, keyed by the process too. For one process
/// the order is `epoch_order`.
std::vector<int64_t> partitioned_epoch_order(int64_t samples, const BatchShares& shares, const EpochKey& key);

}  // namespace dptrain
