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

/// The name used in messages, such as "all_reduce".
std::string_view comm_kind_name(CommKind kind);

/// One rank's arguments to one operation. An in-place operation has its buffer in both `in` and `out`.
struct CommCall {
  CommKind kind = CommKind::barrier;
  CommBuffer in = {};
  CommBuffer out = {};
  int other = -1;    ///< root or peer, -1 if there is neither
  int priority = 0;  ///< among operations under way the highest goes first; ranks may differ in it

  /// The buffer whose size messages name. If all ranks' sizes must be equal, this size is compared.
  const CommBuffer& payload() const;
};

/// Throws an error with exit code 70 if the call is wrong whatever the other ranks do: a root or peer that doesn't
/// exist, `in` and `out` that don't fit, or a dtype that can't be summed.
void check_call(const CommCall& call, int rank, int size);

/// Bytes of payload that `rank` sends in this call. A byte counts when it leaves a rank, once for each rank that needs
/// it. Sums count as a ring would move them. With N ranks, a buffer of S bytes and parts of P bytes:
///   all_reduce                    2 (N - 1) S = total over all ranks; rank r's share is
///                                 floor(total (r + 1) / N) - floor(total r / N), so that the shares add up exactly
///   reduce                        S from every rank except the root
///   broadcast                     (N - 1) S from the root
///   reduce_scatter, all_gather    (N - 1) P from every rank
///   gather                        its own part from every rank except the root
///   scatter                       all parts except its own from the root
///   send                          S; receive and barrier 0
int64_t sent_bytes(const CommCall& call, int rank, int size);

/// Describes the call: "all_reduce f32[128]", "broadcast f32[128] from root 0".
std::string describe(const CommCall& call);

/// Whether two ranks' calls can be ends of one operation: the same kind, root, dtype and size. For gather and scatter
/// the sizes may differ.
bool calls_agree(const CommCall& a, const CommCall& b);

/// Describes what is wrong with calls that agree in pairs: the sizes of a gather or scatter don't add up to the root's
/// buffer. Example: "rank 0 called gather f32[3] to root 0 as collective #2 with f32[10] for all parts, but the parts
/// have 3 + 6 elements". `calls` are those of rank 0, 1...
std::optional<std::string> sizes_disagree(std::span<const CommCall> calls, std::string_view as);

/// Expresses the whole operation as sums and copies between the ranks' buffers. `calls` are those of rank 0, 1..., or
/// of the sender and the receiver for a message.
std::vector<TreeSum> sums_of(std::span<const CommCall> calls);

}  // namespace dptrain
