#pragma once

#include "data/batch_split.h"
#include "data/dataset.h"
#include "train/experiment.h"

namespace dptrain::train {

// Under `batch_norm: local` and `first` the running statistics that evaluate and are saved are those of one part of
// every batch alone: the first device's, or under `shards` and `first` the first shard's. Of a part that never has
// samples they would stay as they began, mean 0 and variance 1.

/// Throws 78 where the model has batch norms and that part gets no sample of any micro-batch of a whole batch.
void require_first_samples(const Experiment& experiment, const Dataset& data);

/// A measured split with a weight for the first device that gives it, where those statistics are its, a sample of every
/// micro-batch of a whole batch, however slow it is.
BatchSplit with_first_samples(const BatchSplit& split, const Experiment& experiment, const Dataset& data);

}  // namespace dptrain::train
