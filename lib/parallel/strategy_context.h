#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/injected_fault.h"
#include "parallel/planted_fault.h"
#include "parallel/rank_team.h"
#include "parallel/replica.h"
#include "parallel/shared_statistics.h"
#include "parallel/store_links.h"

namespace dptrain::parallel {

/// Everything that a strategy is constructed from.
struct StrategyContext {
  RankTeam::Options team;
  ReplicaSpec replica;
  std::optional<BatchSplit> split = {};  ///< how batches are split among the ranks; evenly by default
  int shards = 0;  ///< logical shards of a batch, at least as many as ranks (shard_runs.h); 0: no shards
  /// The most samples that a device computes at once. Measurements before the training use it; 0: not known.
  int64_t micro_batch_samples = 0;
  BatchNormMode batch_norm = BatchNormMode::local;
  PlantedFault planted = PlantedFault::none;
  std::vector<InjectedFault> faults = {};

  /// This process's links to a key-value store whose servers are in several processes. The strategy takes them over.
  std::shared_ptr<StoreLinks> store_links = {};

  /// The ranks of the world that are in this process, and the world size.
  RankRun own_ranks() const {
    return team.world ? team.world->own_ranks() : RankRun{0, static_cast<int>(team.devices.size())};
  }
  int world_size() const { return team.world ? team.world->shape.ranks() : static_cast<int>(team.devices.size()); }
};

}  // namespace dptrain::parallel
