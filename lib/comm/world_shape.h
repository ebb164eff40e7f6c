#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dptrain {

/// The most ranks that one of several processes may have. Their messages' tags can tell this many apart.
inline constexpr int kMostRanksOfProcess = 64;

/// Ranks [begin, end).
struct RankRun {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  bool contains(int rank) const { return begin <= rank && rank < end; }
  bool operator==(const RankRun&) const = default;
};

/// Which ranks each process of a job has: a contiguous run, in the order of the processes.
class WorldShape {
 public:
  /// `ranks_of_processes` is the number of ranks of each process; it may be 0.
  explicit WorldShape(const std::vector<int>& ranks_of_processes);

  int ranks() const { return begins_.back(); }
  int processes() const { return static_cast<int>(begins_.size()) - 1; }
  RankRun ranks_of(int process) const {
    return {begins_[static_cast<size_t>(process)], begins_[static_cast<size_t>(process) + 1]};
  }
  int process_of(int rank) const;

  /// The largest subtrees of the tree of sums over all ranks (see Communicator) that lie within a process, in order.
  /// The process can add up these alone. The first process of 3 + 3 ranks, whose tree is ((0+1)+(2+3))+(4+5), has 0 + 1
  /// and 2.
  std::vector<RankRun> whole_subtrees(int process) const;

 private:
  std::vector<int> begins_;
};

/// The shape of some ranks of a world, in ascending order. It has an entry for every process with any of these ranks.
WorldShape shape_of_ranks(const WorldShape& world, const std::vector<int>& ranks);

/// Merges consecutive processes on one host into one, up to as many ranks as one process may have. Processes without
/// ranks are left out. `hosts` has a number for each process's host; any distinct numbers will do.
WorldShape ranks_of_hosts(const WorldShape& processes, const std::vector<int64_t>& hosts);

/// Names ranks: "rank 3", "ranks 2, 3".
std::string rank_names(const std::vector<int>& ranks);

}  // namespace dptrain
