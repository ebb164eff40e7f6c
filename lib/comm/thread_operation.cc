#include "comm/thread_operation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace dptrain {
namespace {

// 64 Ki floats: long enough that taking a piece costs nothing beside it (some 30 us of memory traffic), short enough
// that the last pieces end at about the same time on all ranks and that a failed group is left at once.
constexpr int64_t kPieceBytes = 256 * 1024;

int64_t piece_elements(const TreeSum& sum) { return kPieceBytes / dtype_bytes(sum.dtype); }

int64_t pieces_of(const TreeSum& sum) { return (sum.elements + piece_elements(sum) - 1) / piece_elements(sum); }

}  // namespace

ThreadGroup::Operation::Operation(const OperationKey& key, int group_size)
    : key_(key), calls_(key.is_message() ? 2 : group_size) {}

int ThreadGroup::Operation::slot(int rank) const { return key_.is_message() ? (rank == key_.to ? 1 : 0) : rank; }

int ThreadGroup::Operation::rank_of(int slot) const {
  return key_.is_message() ? (slot == 1 ? key_.to : key_.from) : slot;
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
    return fmt::format("rank {} called {} as {}, rank {} {}", rank, describe(call), name(), rank_of(s),
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
  const CommCall& call = *calls_[slot(rank)];
  std::vector<int> missing;
  for (int s = 0; s < static_cast<int>(calls_.size()); ++s) {
    if (!calls_[s]) missing.push_back(rank_of(s));
  }
  const CommBuffer& payload = call.payload();
  const std::string size = call.kind == CommKind::barrier ? ""
                                                          : fmt::format(" {}[{}] ({} bytes)", dtype_name(payload.dtype),
                                                                        payload.elements, payload.bytes());
  return fmt::format("rank {} waited {:g} s in {} #{}{} for rank{} {}", rank, waited_s, comm_kind_name(call.kind),
                     key_.number, size, missing.size() == 1 ? "" : "s", fmt::join(missing, ", "));
}

void ThreadGroup::Operation::make_ready(bool meet_only) {
  ready = true;
  if (meet_only) return;
  sums_ = sums_of(all_calls());
  for (const TreeSum& sum : sums_) pieces += pieces_of(sum);
}

int64_t ThreadGroup::Operation::take_and_run_pieces(const std::atomic<bool>& stop) noexcept {
  int64_t ran = 0;
  // Relaxed: the group's mutex, held before and after, orders the buffers' contents; the counter only deals out
  // numbers.
  while (!stop.load(std::memory_order_relaxed)) {
    const int64_t piece = next_piece_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= pieces) break;
    run_piece(piece);
    ++ran;
  }
  return ran;
}

void ThreadGroup::Operation::run_piece(int64_t piece) const noexcept {
  for (const TreeSum& sum : sums_) {
    const int64_t count = pieces_of(sum);
    if (piece < count) {
      const int64_t begin = piece * piece_elements(sum);
      return sum.run(begin, std::min(begin + piece_elements(sum), sum.elements));
    }
    piece -= count;
  }
}

}  // namespace dptrain
