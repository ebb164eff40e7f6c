#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "comm/comm_call.h"
#include "comm/world_shape.h"

namespace dptrain {

/// A place in one of a rank's buffers.
struct BufferPlace {
  enum class Buffer { in, out, staging };
  Buffer buffer = Buffer::staging;
  int64_t byte = 0;
};

/// A sum that a rank makes of what lies in its own buffers: as TreeSum.
struct RankSum {
  std::vector<BufferPlace> inputs = {};
  BufferPlace output = {};
  int64_t elements = 0;
  DType dtype = DType::f32;
  std::vector<int> widths = {};
  bool partial = false;
};

struct RankMessage {
  bool sends = false;
  int rank = 0;  ///< the other one
  BufferPlace place = {};
  int64_t bytes = 0;
};

/// Sums, one after the other; then messages, all at once.
struct RankStage {
  std::vector<RankSum> sums = {};
  std::vector<RankMessage> messages = {};
};

/// A sum over ranks that see no other's memory, as one of them takes part in it. All have as many stages, and messages
/// of a stage have their other ends in the same stage there; those from one rank to another come in one order.
struct RankTreePlan {
  std::vector<RankStage> stages;
  int64_t staging_bytes = 0;
};

struct RankTreeOptions {
  /// The ranks of each node: those that are near each other.
  WorldShape nodes;
  int rank = 0;
  int most_inputs = 64;  ///< of one sum
};

/// In the order of the tree over ranks (see Communicator), whatever the nodes. Rank r makes the r-th part of the sum:
///   1  the ranks of a node send each other what they have: each adds up the node's whole subtrees for its share of the
///      parts,
///   2  and sends the sums of each part to the part's rank, which adds up all subtrees
///   3  all_reduce: and sends that to one rank of each other node; reduce: to the root
///   4  all_reduce: which send it to the other ranks of their nodes.
/// So of a buffer of S bytes S (nodes - 1) / nodes leave a node, of each of its whole subtrees and of the sum, in equal
/// shares from its ranks. Of ranks of one node, and of nodes of one rank, two of the four rounds are empty.
///
/// `call`: an all_reduce, a reduce or a reduce_scatter.
RankTreePlan plan_rank_tree(const CommCall& call, const RankTreeOptions& options);

/// A rank's plans, each made once.
class RankTreePlans {
 public:
  explicit RankTreePlans(const RankTreeOptions& options) : options_(options) {}
  const RankTreePlan& of(const CommCall& call);

 private:
  const RankTreeOptions options_;
  /// By kind, elements, type, root.
  std::map<std::tuple<CommKind, int64_t, DType, int>, RankTreePlan> plans_;
};

/// Which sums GPUs of several processes make so, of what NCCL carries; NCCL adds up the others.
enum class TreeSums {
  of_16_bits,  ///< which are rounded once then
  all          ///< in the bits of one process
};
inline TreeSums tree_sums(bool deterministic) { return deterministic ? TreeSums::all : TreeSums::of_16_bits; }
bool goes_by_tree(const CommCall& call, TreeSums sums);

/// An all_reduce or a reduce as some of at most `most_bytes` each, one after the other, which bounds what lies in
/// staging; a reduce_scatter as it is.
std::vector<CommCall> pieces_of(const CommCall& call, int64_t most_bytes);
inline constexpr int64_t kMostTreeBytes = int64_t{32} << 20;

}  // namespace dptrain
