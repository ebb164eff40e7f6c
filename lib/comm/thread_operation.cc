#include "comm/thread_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dptrain {
namespace {

// 64 Ki floats. That is long enough (some 30 us of memory traffic) for the cost of taking a piece not to matter. It is
// short enough that all ranks end at about the same time, and that a failed group is left at once.
constexpr int64_t kPieceBytes = 256 * 1024;

int64_t piece_elements(const TreeSum& sum) { return kPieceBytes / dtype_bytes(sum.dtype); }

int64_t pieces_of(const TreeSum& sum) { return (sum.elements + piece_elements(sum) - 1) / piece_elements(sum); }

}  // namespace

ThreadGroup::Operation::Operation(const OperationKey& key, const RankRun& ranks)
    : key_(key),
      ranks_(ranks),
      calls_(static_cast<size_t>(!key.is_message() ? ranks.size()
                                 : has_both_ends() ? 2
                                                   : 1)) {}

int ThreadGroup::Operation::slot(int rank) const {
  if (!key_.is_message()) return rank - ranks_.begin;
  return has_both_ends() && rank == key_.to ? 1 : 0;
}

int ThreadGroup::Operation::rank_of(int slot) const {
  if (!key_.is_message()) return ranks_.begin + slot;
  if (has_both_ends()) return slot == 1 ? key_.to : key_.from;
  return ranks_.contains(key_.from) ? key_.from : key_.to;
}

std::string ThreadGroup::Operation::name() const {
  return key_.is_message() ? fmt::format("message #{} from rank {} to rank {}", key_.number, key_.from, key_.to)
                           : fmt::format("collective #{}", key_.number);
}

void ThreadGroup::Operation::arrive(int rank, const CommCall& call) {
  calls_[slot(rank)] = call;
  ++arrived_;
}

void ThreadGroup::Operation::leave(int rank) {
  calls_[slot(rank)].reset();
  --arrived_;
}

std::optional<std::string> ThreadGroup::Operation::disagreement(int rank, const CommCall& call) const {
  for (int s = 0; s < static_cast<int>(calls_.size()); ++s) {
    if (!calls_[s] || calls_agree(*calls_[s], call)) continue;
    return fmt::format("rank {} called {} as {}, but rank {} called {}", rank, describe(call), name(), rank_of(s),
                       describe(*calls_[s]));
  }
  return std::nullopt;
}

std::optional<std::string> ThreadGroup::Operation::disagreement_of_all() const {
  return sizes_disagree(all_calls(), name());
}

std::vector<CommCall> ThreadGroup::Operation::all_calls() const {
  std::vector<CommCall> calls;
  for (const auto& call : calls_) calls.push_back(*call);
  return calls;
}

std::vector<int> ThreadGroup::Operation::ranks() const {
  std::vector<int> ranks;
  for (int s = 0; s < static_cast<int>(calls_.size()); ++s) ranks.push_back(rank_of(s));
  return ranks;
}

std::string ThreadGroup::Operation::overdue(int rank, double waited_s) const {
  std::vector<int> missing;
  for (int s = 0; s < static_cast<int>(calls_.size()); ++s) {
    if (!calls_[s]) missing.push_back(rank_of(s));
  }
  return overdue(rank, waited_s, missing);
}

std::string ThreadGroup::Operation::overdue(int rank, double waited_s, const std::vector<int>& missing) const {
  const CommCall& call = *calls_[slot(rank)];
  const CommBuffer& payload = call.payload();
  const std::string size = call.kind == CommKind::barrier ? ""
                                                          : fmt::format(" {}[{}] ({} bytes)", dtype_name(payload.dtype),
                                                                        payload.elements, payload.bytes());
  return fmt::format("rank {} waited {:g} s in {} #{}{} for {}", rank, waited_s, comm_kind_name(call.kind), key_.number,
                     size, rank_names(missing));
}

void ThreadGroup::Operation::make_ready(ExchangePlan plan) {
  ready = true;
  times.ready = Clock::now();
  plan_ = std::move(plan);
  if (plan_.stages.empty()) plan_.stages.emplace_back();
  cut_into_pieces();
}

void ThreadGroup::Operation::next_stage() {
  ++stage_;
  cut_into_pieces();
}

void ThreadGroup::Operation::cut_into_pieces() {
  pieces = 0;
  for (const TreeSum& sum : stage().sums) pieces += pieces_of(sum);
  finished_pieces = 0;
  next_piece_ = 0;
}

int64_t ThreadGroup::Operation::take_and_run_pieces(const std::atomic<bool>& stop) noexcept {
  int64_t ran = 0;
  // Relaxed order is enough. The group's mutex, held before and after, orders the buffers' contents; the counter only
  // hands out numbers.
  while (!stop.load(std::memory_order_relaxed)) {
    const int64_t piece = next_piece_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= pieces) break;
    run_piece(piece);
    ++ran;
  }
  return ran;
}

void ThreadGroup::Operation::run_piece(int64_t piece) const noexcept {
  for (const TreeSum& sum : stage().sums) {
    const int64_t count = pieces_of(sum);
    if (piece < count) {
      const int64_t begin = piece * piece_elements(sum);
      return sum.run(begin, std::min(begin + piece_elements(sum), sum.elements));
    }
    piece -= count;
  }
}

}  // namespace dptrain
