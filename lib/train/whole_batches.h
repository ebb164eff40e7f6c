#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "data/batch_loader.h"
#include "train/experiment.h"

namespace dptrain::train {

/// A training's batches without those that are short at an epoch's end, for what compares steps with each other.
class WholeBatches {
 public:
  /// `loader` outlives it, and is used by nobody else.
  WholeBatches(BatchLoader& loader, const Experiment& experiment, const Dataset& data)
      : loader_(loader), whole_(std::min(experiment.batch_size, data.samples())) {}

  std::unique_ptr<Batch> next() {
    std::unique_ptr<Batch> batch;
    if (epoch_ > 0) batch = loader_.next();
    if (batch == nullptr || batch->samples < whole_) {
      loader_.start_epoch(++epoch_);
      batch = loader_.next();
    }
    return batch;
  }
  /// Of the batch that came last, from 1.
  int64_t epoch() const { return epoch_; }

 private:
  BatchLoader& loader_;
  int64_t whole_;  ///< samples of a batch that isn't short
  int64_t epoch_ = 0;
};

}  // namespace dptrain::train
