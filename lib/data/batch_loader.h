#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/batch_part.h"
#include "data/batch_split.h"
#include "data/dataset.h"
#include "data/epoch_order.h"

namespace dptrain {

/// What is computed in one forward and backward pass, cut into parts; a part may be empty.
struct MicroBatch {
  int64_t samples = 0;           ///< over all parts, those of other processes too; at least one
  std::vector<int64_t> counts;   ///< the labels of each output that count, over all parts
  std::vector<BatchPart> parts;  ///< of this process
};

/// One optimizer step's samples. Micro-batch m of A holds samples floor(m*B/A) to floor((m+1)*B/A) of the batch of B;
/// one without samples is left out.
struct Batch {
  int64_t first_position = 0;  ///< of its first sample in the epoch's order
  int64_t samples = 0;         ///< over all micro-batches
  /// The labels of each output that count, over all micro-batches and parts: what its losses are divided by.
  std::vector<int64_t> counts;
  std::vector<MicroBatch> micro_batches;
};

struct BatchLoaderOptions {
  int64_t batch_size = 0;
  int64_t micro_batches = 1;  ///< of a batch
  uint64_t seed = 0;
  bool shuffle = true;
  ops::Augmentations augmentations = {};
  /// The device of each part, null where its images aren't needed; one entry per part. They outlive the loader and its
  /// batches.
  std::vector<Device*> devices = {};
  /// Which of the split's parts these are, where other processes load the others: those from this one on.
  int first_part = 0;
  /// How a micro-batch's samples are shared out among all parts; by default evenly among the devices.
  std::optional<BatchSplit> split = {};
  /// How many of the split's parts each process has, where each has samples of its own (see epoch_order.h).
  std::vector<int> parts_of_processes = {};
  /// Batches prepared ahead of the one in use.
  int batches_ahead = 2;
  int threads = 1;  ///< that load samples of one batch, side by side
};

/// Prepares the batches of an epoch in threads of its own, a few ahead. Every sample of the data set comes once an
/// epoch; the last batch is smaller where the size doesn't divide. Used by one thread.
class BatchLoader {
 public:
  BatchLoader(std::shared_ptr<const Dataset> dataset, const BatchLoaderOptions& options);
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  ~BatchLoader();

  int64_t batches_per_epoch() const;
  /// Begins epoch `epoch` (from 1) at its batch `first_batch` (from 0), dropping what is left of the one before.
  void start_epoch(int64_t epoch, int64_t first_batch = 0);
  /// The next batch, or nothing at the end of the epoch. Blocks until one is ready; throws what the loader's threads
  /// threw, again and again until an epoch is started.
  std::unique_ptr<Batch> next();
  /// Blocks until as many batches are ready as it prepares ahead, or all that are left of the epoch. Throws as `next`.
  void wait_until_full();

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace dptrain
