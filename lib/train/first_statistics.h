#pragma once

#include "data/batch_split.h"
#include "data/dataset.h"
#include "train/experiment.h"

namespace dptrain::train {

// Under `batch_norm: local` and `first`, the running statistics for evaluation and checkpoints come from one part of
// every batch: the first device's, or under `shards` and `first` the first shard's. If that part never has samples, the
// statistics stay at their start, mean 0 and variance 1.

/// Throws 78 if the model has batch norms and that part gets no sample of any micro-batch of a whole batch.
void require_first_samples(const Experiment& experiment, const Dataset& data);

/// A measured split, with the first device's weight raised if necessary. If the running statistics are the first
/// device's, it then gets a sample of every micro-batch of a whole batch, however slow it is.
BatchSplit with_first_samples(const BatchSplit& split, const Experiment& experiment, const Dataset& data);

}  // namespace dptrain::train
