#pragma once

#include <functional>
#include <memory>
#include <memory_resource>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace dptrain {

/// What ranks go on. A base of theirs, and the first one, so that it outlives them.
struct RankGround {
  std::shared_ptr<void> ground = {};
};
/// All ranks of a world. Null are those of the other process of a pair (process_pair.h).
struct RankList : RankGround, std::vector<std::unique_ptr<Communicator>> {
  RankList() = default;
  RankList(std::vector<std::unique_ptr<Communicator>> ranks) : vector(std::move(ranks)) {}
};

/// A kind of communicator that all tests of this folder are run with.
struct CommunicatorKind {
  std::string name;
  /// Why this machine doesn't have the kind; empty where it does.
  std::string absence = {};
  /// Whether starting a collective waits for the other ranks, so that it can't be taken back.
  bool meets_at_start = false;
  std::function<RankList(int size, double timeout_s)> make;
  int least_ranks = 1;
  /// How many ranks this machine has room for, and what each of them needs.
  int most_ranks = 1 << 20;
  std::string needs = {};
  /// Ranks of each process, where there are several: who is missing is told by process, and a collective that this
  /// process's ranks have started can't be taken back.
  int ranks_of_process = 0;
  /// Where values lie; must be readable by the test and by the ranks' devices.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
  /// A deadline within which a world of this kind is formed, and which a test may sit out.
  double soon_s = 0.02;
};

inline void PrintTo(const CommunicatorKind& kind, std::ostream* out) { *out << kind.name; }

}  // namespace dptrain
