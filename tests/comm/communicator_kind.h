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

/// Resources that the ranks use. It is the first base of RankList, so that it outlives the ranks.
struct RankGround {
  std::shared_ptr<void> ground = {};
};
/// All ranks of a world. The ranks of the other process of a pair are null (process_pair.h).
struct RankList : RankGround, std::vector<std::unique_ptr<Communicator>> {
  RankList() = default;
  RankList(std::vector<std::unique_ptr<Communicator>> ranks) : vector(std::move(ranks)) {}
};

/// A kind of communicator. All tests of this folder run with each kind.
struct CommunicatorKind {
  std::string name;
  /// Why this machine doesn't have the kind; empty where it does.
  std::string absence = {};
  /// Whether starting a collective waits for the other ranks. A started collective then can't be canceled.
  bool meets_at_start = false;
  std::function<RankList(int size, double timeout_s)> make;
  int least_ranks = 1;
  /// How many ranks this machine has room for, and what each rank needs.
  int most_ranks = 1 << 20;
  std::string needs = {};
  /// Ranks per process, if there are several processes; else 0. Errors then name missing processes, and a collective
  /// that this process's ranks have started can't be canceled.
  int ranks_of_process = 0;
  /// Where values are stored. The test and the ranks' devices must be able to read this memory.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
  /// A deadline that suffices to form a world of this kind, and is short enough for a test to wait for.
  double soon_s = 0.02;
};

inline void PrintTo(const CommunicatorKind& kind, std::ostream* out) { *out << kind.name; }

}  // namespace dptrain
