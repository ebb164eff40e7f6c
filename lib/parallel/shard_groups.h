#pragma once

#include <vector>

#include "comm/communicator.h"
#include "parallel/rank_team.h"

namespace dptrain::parallel {

/// A rank's ends of the communicators by which sharded weights are exchanged.
struct ShardCommunicators {
  Communicator& world;
  Communicator& shards;            ///< over the ranks that share one copy of the weights
  Communicator* copies = nullptr;  ///< over the ranks that own the same part of each copy; null if there is one copy

  /// All that a step uses, each once.
  std::vector<Communicator*> used() const;
};

/// Divides the ranks of the world into groups of neighbors. Each group shares one copy of the weights.
class ShardGroups {
 public:
  /// `copies` divides the number of ranks.
  explicit ShardGroups(int copies) : copies_(copies) {}
  /// Forms the groups. All processes call it, before ranks work.
  void form(RankTeam& team);
  /// The communicators of a rank of this process.
  const ShardCommunicators& of(int rank) const { return of_ranks_[static_cast<size_t>(rank)]; }

 private:
  int copies_;
  std::vector<ShardCommunicators> of_ranks_;
};

}  // namespace dptrain::parallel
