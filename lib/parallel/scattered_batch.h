#pragma once

#include <memory>
#include <vector>

#include "parallel/replica.h"

namespace dptrain::parallel {

/// A batch as DataParallel shares it among the ranks of a process.
struct ScatteredBatch {
  struct MicroBatch {
    const BatchPart* whole = nullptr;    ///< the process's part of the batch
    std::vector<BatchPart> shares = {};  ///< by rank
    BatchPart labels = {};               ///< only the labels of all shares, one after the other, by output
  };

  /// `split`: of the batch over the ranks of the world; the process's own are those from `first_rank` on.
  ScatteredBatch(std::shared_ptr<const Batch> whole, const BatchSplit& split, int first_rank, int ranks);

  /// A rank's share of each micro-batch.
  StepParts shares_of(int rank) const;
  /// The shares of all ranks, one micro-batch after the other.
  StepParts all_shares() const;

  std::shared_ptr<const Batch> batch;
  std::vector<MicroBatch> micro_batches;
};

/// What the exchange of one rank carries of such a batch.
struct ScatteredParts {
  struct MicroBatch {
    PartPlace whole;            ///< if the rank decodes the images of all ranks
    PartPlace share;            ///< of the rank itself
    PartPlace labels;           ///< if the rank computes the losses of all ranks
    std::vector<int64_t> rows;  ///< by output: the place of the first loss that the rank computes
  };
  StepParts parts;  ///< what is carried, in order
  std::vector<MicroBatch> micro_batches;
};

/// What a rank of the process does for all of its ranks.
struct ScatterRole {
  int rank = 0;
  bool decodes = false;          ///< it has the images of all shares
  bool computes_losses = false;  ///< it computes the losses of all shares
};

ScatteredParts scattered_parts(PartReader& reader, const ScatteredBatch& batch, const ScatterRole& role);

}  // namespace dptrain::parallel
