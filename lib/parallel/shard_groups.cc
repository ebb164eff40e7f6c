#include "parallel/shard_groups.h"

#include "base/check.h"

namespace dptrain::parallel {

std::vector<Communicator*> ShardCommunicators::used() const {
  std::vector<Communicator*> used = {&world};
  if (copies != nullptr) used.insert(used.end(), {&shards, copies});
  return used;
}

void ShardGroups::form(RankTeam& team) {
  const int shards = team.world_size() / copies_;
  DPTRAIN_CHECK(shards * copies_ == team.world_size(), "{} copies over {} ranks", copies_, team.world_size());
  for (int rank = 0; rank < team.size(); ++rank)
    of_ranks_.push_back({.world = team.communicator(rank), .shards = team.communicator(rank)});
  if (copies_ == 1) return;
  std::vector<Communicator*> of_shards(of_ranks_.size()), of_copies(of_ranks_.size());
  const auto form = [&](int first, int step, int count, std::vector<Communicator*>& members) {
    std::vector<int> ranks;
    for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
    const auto formed = team.form_world_group(ranks);
    for (size_t i = 0; i < formed.size(); ++i)
      if (formed[i] != nullptr) members[static_cast<size_t>(ranks[i] - team.first_rank())] = formed[i];
  };
  for (int copy = 0; copy < copies_; ++copy) form(copy * shards, 1, shards, of_shards);
  for (int shard = 0; shard < shards; ++shard) form(shard, shards, copies_, of_copies);
  of_ranks_.clear();
  for (int rank = 0; rank < team.size(); ++rank)
    of_ranks_.push_back({.world = team.communicator(rank),
                         .shards = *of_shards[static_cast<size_t>(rank)],
                         .copies = of_copies[static_cast<size_t>(rank)]});
}

}  // namespace dptrain::parallel
