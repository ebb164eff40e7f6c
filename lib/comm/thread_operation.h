#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/thread_group.h"

namespace dptrain {

/// One operation from the first rank's arrival on. All members are guarded by the group's mutex, but
/// `take_and_run_pieces`, which is called without it by a thread that is counted in `workers`, and `done`, which may be
/// read without.
class ThreadGroup::Operation {
 public:
  Operation(const OperationKey& key, int group_size);

  /// Position of a rank's call: its rank, or 0 for the sender and 1 for the receiver of a message.
  int slot(int rank) const;
  void arrive(int rank, const CommCall& call);
  void leave(int rank);
  bool all_arrived() const { return arrived_ == static_cast<int>(calls_.size()); }

  /// Why `rank`'s call doesn't fit those that have arrived, naming both, or nothing.
  std::optional<std::string> disagreement(int rank, const CommCall& call) const;
  /// The same for what only all calls together can show.
  std::optional<std::string> disagreement_of_all() const;
  /// "rank 0 waited 300 s in all_reduce #12 f32[1024] (4096 bytes) for rank 1".
  std::string overdue(int rank, double waited_s) const;

  /// All calls, by slot, and the ranks that made them. All have arrived.
  std::vector<CommCall> all_calls() const;
  std::vector<int> ranks() const;

  /// Cuts the operation into pieces, none where ranks only meet. All have arrived.
  void make_ready(bool meet_only);
  /// Runs pieces until all are taken or `stop` is set, each to its end. Returns how many.
  int64_t take_and_run_pieces(const std::atomic<bool>& stop) noexcept;

  bool ready = false;
  int64_t pieces = 0;  // set with `ready`, constant from then on
  int64_t finished_pieces = 0;
  int workers = 0;  // threads inside take_and_run_pieces: while there are any, the buffers are in use
  std::atomic<bool> done = false;
  /// Where links are simulated: set with `ready`; nobody's call ends before.
  Clock::time_point arrives_at = Clock::time_point::min();

 private:
  int rank_of(int slot) const;
  std::string name() const;
  void run_piece(int64_t piece) const noexcept;

  const OperationKey key_;
  std::vector<std::optional<CommCall>> calls_;
  int arrived_ = 0;
  std::vector<TreeSum> sums_;
  std::atomic<int64_t> next_piece_ = 0;
};

}  // namespace dptrain
