#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/exchange_plan.h"
#include "comm/thread_group.h"

namespace dptrain {

/// One operation from the first rank's arrival on. The group's mutex guards all members, with two exceptions. A thread
/// counted in `workers` calls `take_and_run_pieces` without it, and `done` may be read without it.
class ThreadGroup::Operation {
 public:
  /// An operation of these ranks of this process. A message has one or both of its ends among them.
  Operation(const OperationKey& key, const RankRun& ranks);

  const OperationKey& key() const { return key_; }
  /// The position of a rank's call: its place among the process's ranks. In a message the sender has 0 and the receiver
  /// 1, or the one end in this process has 0.
  int slot(int rank) const;
  int rank_of(int slot) const;
  /// The operation's name: "collective #12", "message #3 from rank 0 to rank 1".
  std::string name() const;
  void arrive(int rank, const CommCall& call);
  void leave(int rank);
  bool all_arrived() const { return arrived_ == static_cast<int>(calls_.size()); }

  /// Why `rank`'s call doesn't fit those that have arrived, naming both. Nothing if it fits.
  std::optional<std::string> disagreement(int rank, const CommCall& call) const;
  /// Why the calls don't fit, for what only all calls together can show.
  std::optional<std::string> disagreement_of_all() const;
  /// Describes a missed deadline: "rank 0 waited 300 s in all_reduce #12 f32[1024] (4096 bytes) for rank 1", where rank
  /// 1 hasn't arrived.
  std::string overdue(int rank, double waited_s) const;
  /// Describes a missed deadline with `missing` ranks of other processes.
  std::string overdue(int rank, double waited_s, const std::vector<int>& missing) const;

  /// All calls, by slot, and the ranks that made them. All ranks must have arrived.
  std::vector<CommCall> all_calls() const;
  std::vector<int> ranks() const;

  /// Sets the plan: stages of sums and messages. The first stage's sums become the pieces. All ranks must have arrived.
  void make_ready(ExchangePlan plan);
  /// The current stage.
  const ExchangeStage& stage() const { return plan_.stages[stage_]; }
  int stage_number() const { return static_cast<int>(stage_); }
  bool is_last_stage() const { return stage_ + 1 >= plan_.stages.size(); }
  /// Moves on to the next stage's pieces. Nobody may be at work on a piece.
  void next_stage();
  /// Runs pieces until all are taken or `stop` is set; a piece that was begun is finished. Returns how many it ran.
  int64_t take_and_run_pieces(const std::atomic<bool>& stop) noexcept;

  bool ready = false;
  OperationTimes times;    // set with `ready` and `done`
  bool withdrawn = false;  // the exchange carries it, but its buffer must not be used any more
  int64_t pieces = 0;      // of the current stage; set with `ready`
  int64_t finished_pieces = 0;
  int workers = 0;  // threads inside take_and_run_pieces: while there are any, the buffers are in use
  std::atomic<bool> done = false;
  /// The operation's number in the simulated links, set with `ready`. No rank's call ends before it has arrived there.
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
