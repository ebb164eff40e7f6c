#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/exchange_plan.h"
#include "comm/thread_group.h"

namespace dptrain {

/// One operation from the first rank's arrival on. All members are guarded by the group's mutex, but
/// `take_and_run_pieces`, which is called without it by a thread that is counted in `workers`, and `done`, which may be
/// read without.
class ThreadGroup::Operation {
 public:
  /// Of these ranks of this process; a message has one or both of its ends among them.
  Operation(const OperationKey& key, const RankRun& ranks);

  const OperationKey& key() const { return key_; }
  /// Position of a rank's call: among the process's ranks, or 0 for the sender and 1 for the receiver of a message; 0
  /// where the other end is in another process.
  int slot(int rank) const;
  int rank_of(int slot) const;
  /// "collective #12", "message #3 from rank 0 to rank 1".
  std::string name() const;
  void arrive(int rank, const CommCall& call);
  void leave(int rank);
  bool all_arrived() const { return arrived_ == static_cast<int>(calls_.size()); }

  /// Why `rank`'s call doesn't fit those that have arrived, naming both, or nothing.
  std::optional<std::string> disagreement(int rank, const CommCall& call) const;
  /// The same for what only all calls together can show.
  std::optional<std::string> disagreement_of_all() const;
  /// "rank 0 waited 300 s in all_reduce #12 f32[1024] (4096 bytes) for rank 1", the one that hasn't arrived.
  std::string overdue(int rank, double waited_s) const;
  /// The same of ranks of other processes.
  std::string overdue(int rank, double waited_s, const std::vector<int>& missing) const;

  /// All calls, by slot, and the ranks that made them. All have arrived.
  std::vector<CommCall> all_calls() const;
  std::vector<int> ranks() const;

  /// What all of it comes to, in stages of sums and messages; the first one's sums are the pieces now. All have
  /// arrived.
  void make_ready(ExchangePlan plan);
  /// The stage whose pieces are finished.
  const ExchangeStage& stage() const { return plan_.stages[stage_]; }
  int stage_number() const { return static_cast<int>(stage_); }
  bool is_last_stage() const { return stage_ + 1 >= plan_.stages.size(); }
  /// Goes on to the next one's pieces. Nobody is at work on any.
  void next_stage();
  /// Runs pieces until all are taken or `stop` is set, each to its end. Returns how many.
  int64_t take_and_run_pieces(const std::atomic<bool>& stop) noexcept;

  bool ready = false;
  OperationTimes times;    // set with `ready` and `done`
  bool withdrawn = false;  // its buffer must not be used any more
  int64_t pieces = 0;      // of the stage; set with `ready`
  int64_t finished_pieces = 0;
  int workers = 0;  // threads inside take_and_run_pieces: while there are any, the buffers are in use
  std::atomic<bool> done = false;
  /// Where links are simulated: its number there, set with `ready`; nobody's call ends before it has arrived.
  int64_t on_links = 0;

 private:
  bool has_both_ends() const { return ranks_.contains(key_.from) && ranks_.contains(key_.to); }
  void cut_into_pieces();
  void run_piece(int64_t piece) const noexcept;

  const OperationKey key_;
  const RankRun ranks_;
  std::vector<std::optional<CommCall>> calls_;
  int arrived_ = 0;
  ExchangePlan plan_;
  size_t stage_ = 0;
  std::atomic<int64_t> next_piece_ = 0;
};

}  // namespace dptrain
