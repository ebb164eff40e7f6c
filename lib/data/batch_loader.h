#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/batch_part.h"
#include "data/dataset.h"
#include "data/epoch_order.h"

namespace dptrain {

/// One optimizer step's samples, in parts. Part p of P holds samples floor(p*B/P) to floor((p+1)*B/P) of the batch of
/// B; a part may be empty.
struct Batch {
  int64_t first_position = 0;  ///< of its first sample in the epoch's order
  int64_t samples = 0;         ///< over all parts
  std::vector<BatchPart> parts;
};

struct BatchLoaderOptions {
  int64_t batch_size = 0;
  uint64_t seed = 0;
  bool shuffle = true;
  /// The device of each part; one entry per part. They outlive the loader and its batches.
  std::vector<Device*> devices = {};
  /// Batches prepared ahead of the one in use.
  int batches_ahead = 2;
};

/// Prepares the batches of an epoch in a thread of its own, a few ahead. Every sample of the data set comes once an
/// epoch; the last batch is smaller where the size doesn't divide. Used by one thread.
class BatchLoader {
 public:
  BatchLoader(std::shared_ptr<const ImageDataset> dataset, const BatchLoaderOptions& options);
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  ~BatchLoader();

  int64_t batches_per_epoch() const;
  /// Begins epoch `epoch` (from 1), dropping what is left of the one before.
  void start_epoch(int64_t epoch);
  /// The next batch, or nothing at the end of the epoch. Blocks until one is ready; throws what the loader's thread
  /// threw, again and again until an epoch is started.
  std::unique_ptr<Batch> next();

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace dptrain
