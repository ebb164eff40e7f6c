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
  std::vector<Communicator*> of_shards, of_copies(static_cast<size_t>(team.size()));
  for (int rank = 0; rank < team.size(); ++rank) of_shards.push_back(&team.communicator(rank));
  const auto form = [&](int first, int step, int count, std::vector<Communicator*>& of_ranks) {
    std::vector<int> ranks;
    for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
    const auto members = team.form_world_group(ranks);
    for (size_t i = 0; i < members.size(); ++i)
      if (members[i] != nullptr) of_ranks[static_cast<size_t>(ranks[i] - team.first_rank())] = members[i];
  };
  if (copies_ > 1) {
    for (int copy = 0; copy < copies_; ++copy) form(copy * shards, 1, shards, of_shards);
    for (int shard = 0; shard < shards; ++shard) form(shard, shards, copies_, of_copies);
  }
  for (size_t rank = 0; rank < of_shards.size(); ++rank)
    of_ranks_.push_back(
        {.world = team.communicator(static_cast<int>(rank)), .shards = *of_shards[rank], .copies = of_copies[rank]});
}

}  // namespace dptrain::parallel
