#include "comm/world_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "comm/tree_sum.h"

namespace dptrain {
namespace {

void add_subtrees(const RankRun& tree, const RankRun& held, std::vector<RankRun>& subtrees) {
  if (tree.end <= held.begin || held.end <= tree.begin) return;
  if (held.begin <= tree.begin && tree.end <= held.end) {
    subtrees.push_back(tree);
    return;
  }
  const int middle = tree.begin + tree_left_ranks(tree.size());
  add_subtrees({tree.begin, middle}, held, subtrees);
  add_subtrees({middle, tree.end}, held, subtrees);
}

}  // namespace

WorldShape::WorldShape(const std::vector<int>& ranks_of_processes) : begins_({0}) {
  for (const int ranks : ranks_of_processes) {
    DPTRAIN_CHECK(ranks >= 0, "a process of {} ranks", ranks);
    begins_.push_back(begins_.back() + ranks);
  }
  DPTRAIN_CHECK(ranks() > 0, "a world of {} processes without ranks", processes());
}

int WorldShape::process_of(int rank) const {
  DPTRAIN_CHECK(rank >= 0 && rank < ranks(), "no rank {} among {}", rank, ranks());
  return static_cast<int>(std::ranges::upper_bound(begins_, rank) - begins_.begin()) - 1;
}

std::vector<RankRun> WorldShape::whole_subtrees(int process) const {
  std::vector<RankRun> subtrees;
  add_subtrees({0, ranks()}, ranks_of(process), subtrees);
  return subtrees;
}

WorldShape shape_of_ranks(const WorldShape& world, const std::vector<int>& ranks) {
  std::vector<int> counts;
  int last = -1;
  for (const int rank : ranks) {
    const int process = world.process_of(rank);
    if (process != last) counts.push_back(0);
    ++counts.back();
    last = process;
  }
  return WorldShape(counts);
}

WorldShape ranks_of_hosts(const WorldShape& processes, const std::vector<int64_t>& hosts) {
  std::vector<int> ranks_of;
  std::vector<int64_t> host_of;
  for (int process = 0; process < processes.processes(); ++process) {
    const int ranks = processes.ranks_of(process).size();
    if (ranks == 0) continue;
    const int64_t host = hosts[static_cast<size_t>(process)];
    if (!host_of.empty() && host_of.back() == host && ranks_of.back() + ranks <= kMostRanksOfProcess) {
      ranks_of.back() += ranks;
      continue;
    }
    ranks_of.push_back(ranks);
    host_of.push_back(host);
  }
  return WorldShape(ranks_of);
}

std::string rank_names(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace dptrain
