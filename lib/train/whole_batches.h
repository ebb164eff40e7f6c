#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "data/batch_loader.h"
#include "train/experiment.h"

namespace dptrain::train {

/// A training run's batches without the short ones at an epoch's end, so that steps can be compared.
class WholeBatches {
 public:
  /// `loader` must outlive this object, and nobody else may use it.
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
  /// The epoch of the last batch, from 1.
  int64_t epoch() const { return epoch_; }

 private:
  BatchLoader& loader_;
  int64_t whole_;  ///< samples of a whole batch
  int64_t epoch_ = 0;
};

}  // namespace dptrain::train
