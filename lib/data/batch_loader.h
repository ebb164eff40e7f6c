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

/// The samples of one forward and backward pass, cut into parts; a part may be empty.
struct MicroBatch {
  int64_t samples = 0;           ///< over all parts, including those of other processes; at least one
  std::vector<int64_t> counts;   ///< for each output: how many labels count, over all parts
  std::vector<BatchPart> parts;  ///< the parts of this process
};

/// The samples of one optimizer step. Of A micro-batches of a batch of B samples, micro-batch m has samples
/// floor(m*B/A) to floor((m+1)*B/A); micro-batches without samples are left out.
struct Batch {
  int64_t first_position = 0;  ///< position of its first sample in the epoch's order
  int64_t samples = 0;         ///< over all micro-batches
  /// For each output: how many labels count, over all micro-batches and parts. The losses are divided by it.
  std::vector<int64_t> counts;
  std::vector<MicroBatch> micro_batches;
};

struct BatchLoaderOptions {
  int64_t batch_size = 0;
  int64_t micro_batches = 1;  ///< per batch
  uint64_t seed = 0;
  bool shuffle = true;
  ops::Augmentations augmentations = {};
  /// The device of each part; null if the images of that part aren't needed. The devices must outlive the loader and
  /// its batches.
  std::vector<Device*> devices = {};
  /// The number of the first of these parts in the split, if other processes load the other parts.
  int first_part = 0;
  /// How a micro-batch's samples are divided among all parts; by default evenly among the devices.
  std::optional<BatchSplit> split = {};
  /// How many of the split's parts each process has, if each process has samples of its own (see epoch_order.h).
  std::vector<int> parts_of_processes = {};
  /// How many batches are prepared ahead of the one in use.
  int batches_ahead = 2;
  int threads = 1;  ///< threads that load the samples of one batch in parallel
};

/// Prepares the batches of an epoch in threads of its own, a few batches ahead. Every sample of the data set comes once
/// per epoch. The last batch is smaller if the batch size doesn't divide the number of samples. Used by one thread.
class BatchLoader {
 public:
  BatchLoader(std::shared_ptr<const Dataset> dataset, const BatchLoaderOptions& options);
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  ~BatchLoader();

  int64_t batches_per_epoch() const;
  /// Starts epoch `epoch` (from 1) at its batch `first_batch` (from 0). Batches left from the epoch before are dropped.
  void start_epoch(int64_t epoch, int64_t first_batch = 0);
  /// Returns the next batch, or null at the end of the epoch. Blocks until a batch is ready. Throws the exception of
  /// the loader's threads, on every call until the next epoch is started.
  std::unique_ptr<Batch> next();
  /// Blocks until as many batches are ready as are prepared ahead, or all that are left of the epoch. Throws like
  /// `next`.
  void wait_until_full();

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace dptrain
