#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dptrain {

/// The most ranks that one of several processes may have, which is how many the tags of their messages tell apart.
inline constexpr int kMostRanksOfProcess = 64;

/// Ranks [begin, end).
struct RankRun {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  bool contains(int rank) const { return begin <= rank && rank < end; }
  bool operator==(const RankRun&) const = default;
};

/// Which ranks each process of a job has: a run of them, in the order of the processes.
class WorldShape {
 public:
  /// `ranks_of_processes`: how many each process has; it may have none.
  explicit WorldShape(const std::vector<int>& ranks_of_processes);

  int ranks() const { return begins_.back(); }
  int processes() const { return static_cast<int>(begins_.size()) - 1; }
  RankRun ranks_of(int process) const {
    return {begins_[static_cast<size_t>(process)], begins_[static_cast<size_t>(process) + 1]};
  }
  int process_of(int rank) const;

  /// The largest subtrees of the tree of sums over all ranks (see Communicator) that a process has whole, in order:
  /// what it can add up alone. 0 + 1 and 2 for the first process of 3 + 3 ranks, whose tree is ((0+1)+(2+3))+(4+5).
  std::vector<RankRun> whole_subtrees(int process) const;

 private:
  std::vector<int> begins_;
};

/// Of some ranks of a world, in ascending order: what each of the processes has of them that have any.
WorldShape shape_of_ranks(const WorldShape& world, const std::vector<int>& ranks);

/// Processes that follow on each other on one host, up to as many ranks as one process may have, as one; those without
/// ranks are left out. `hosts`: of each process, by any number that stands for it.
WorldShape ranks_of_hosts(const WorldShape& processes, const std::vector<int64_t>& hosts);

/// "rank 3", "ranks 2, 3".
std::string rank_names(const std::vector<int>& ranks);

}  // namespace dptrain
