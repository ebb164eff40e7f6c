#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/tree_sum.h"

namespace dptrain {

enum class CommKind {
  all_reduce,
  reduce,
  broadcast,
  reduce_scatter,
  all_gather,
  gather,
  scatter,
  send,
  receive,
  barrier
};

/// "all_reduce", as messages name it.
std::string_view comm_kind_name(CommKind kind);

/// One rank's arguments to one operation. In-place operations have their buffer in both `in` and `out`.
struct CommCall {
  CommKind kind = CommKind::barrier;
  CommBuffer in = {};
  CommBuffer out = {};
  int other = -1;    ///< root or peer, -1 where there is neither
  int priority = 0;  ///< of what is under way at once the highest goes first; ranks may differ in it

  /// The buffer whose size messages name and, where all sizes must be equal, is compared.
  const CommBuffer& payload() const;
};

/// Throws 70 where the call is wrong whatever the other ranks do: a root or peer that isn't there, `in` and `out` that
/// don't fit, a dtype that can't be summed.
void check_call(const CommCall& call, int rank, int size);

/// Bytes of payload that `rank` sends in this call. A byte counts where it leaves a rank, once for each rank that needs
/// it; sums count as a ring would move them. With N ranks, a buffer of S bytes and parts of P bytes:
///   all_reduce                    2 (N - 1) S = total over all ranks, of which rank r's share is
///                                 floor(total (r + 1) / N) - floor(total r / N), so that the shares add up exactly
///   reduce                        S from every rank but the root
///   broadcast                     (N - 1) S from the root
///   reduce_scatter, all_gather    (N - 1) P from every rank
///   gather                        its own part from every rank but the root
///   scatter                       all parts but its own from the root
///   send                          S; receive and barrier 0
int64_t sent_bytes(const CommCall& call, int rank, int size);

/// "all_reduce f32[128]", "broadcast f32[128] from root 0".
std::string describe(const CommCall& call);

/// Whether two ranks' calls can be ends of one operation: the same kind, root, dtype and size (gather and scatter: of
/// any size).
bool calls_agree(const CommCall& a, const CommCall& b);

/// What is wrong between calls that agree in pairs: the sizes of a gather or scatter don't add up to the root's buffer,
/// as "rank 0 called gather f32[3] to root 0 as collective #2 with f32[10], the ranks' parts are 3 + 6". `calls`: of
/// rank 0, 1...
std::optional<std::string> sizes_disagree(std::span<const CommCall> calls, std::string_view as);

/// The whole operation as sums and copies between the ranks' buffers. `calls`: of rank 0, 1...; of the sender and the
/// receiver for a message.
std::vector<TreeSum> sums_of(std::span<const CommCall> calls);

}  // namespace dptrain
