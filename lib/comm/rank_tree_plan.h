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

/// A sum that a rank makes within its own buffers; see TreeSum.
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
  int rank = 0;  ///< the other rank
  BufferPlace place = {};
  int64_t bytes = 0;
};

/// One stage: sums one after another, then all messages at once.
struct RankStage {
  std::vector<RankSum> sums = {};
  std::vector<RankMessage> messages = {};
};

/// One rank's part in a sum over ranks that can't see each other's memory. All ranks have the same number of stages,
/// and both ends of a message are in the same stage. Messages from one rank to another come in one order.
struct RankTreePlan {
  std::vector<RankStage> stages;
  int64_t staging_bytes = 0;
};

struct RankTreeOptions {
  /// The ranks of each node, which are near each other.
  WorldShape nodes;
  int rank = 0;
  int most_inputs = 64;  ///< the most inputs of one sum
};

/// Plans a sum in the order of the tree over ranks (see Communicator), whatever the nodes. Rank r makes the r-th part
/// of the sum, in four rounds:
///   1  The ranks of a node exchange their data. Each adds up the node's whole subtrees for its share of the parts.
///   2  Each sends the sums of a part to the part's rank, which adds up all subtrees.
///   3  all_reduce: each sends its part of the sum to one rank of every other node. reduce: it sends the part to the
///      root.
///   4  all_reduce: the receivers send the part to the other ranks of their nodes.
/// For a buffer of S bytes, S (nodes - 1) / nodes leave a node for each of its whole subtrees, and once more for the
/// sum. Its ranks send equal shares of that. With one node, or with one rank per node, two of the four rounds are
/// empty.
///
/// `call`: an all_reduce, a reduce or a reduce_scatter.
RankTreePlan plan_rank_tree(const CommCall& call, const RankTreeOptions& options);

/// A rank's plans. Each is made once.
class RankTreePlans {
 public:
  explicit RankTreePlans(const RankTreeOptions& options) : options_(options) {}
  const RankTreePlan& of(const CommCall& call);

 private:
  const RankTreeOptions options_;
  /// By kind, elements, dtype and root.
  std::map<std::tuple<CommKind, int64_t, DType, int>, RankTreePlan> plans_;
};

/// Which sums GPUs of several processes make in the tree's order from data that NCCL carries. NCCL makes all others.
enum class TreeSums {
  of_16_bits,  ///< they are then rounded once
  all          ///< bit-identical to one process
};
inline TreeSums tree_sums(bool deterministic) { return deterministic ? TreeSums::all : TreeSums::of_16_bits; }
bool goes_by_tree(const CommCall& call, TreeSums sums);

/// Divides an all_reduce or a reduce into pieces of at most `most_bytes` each, one after the other. That bounds the
/// staging memory. A reduce_scatter stays whole.
std::vector<CommCall> pieces_of(const CommCall& call, int64_t most_bytes);
inline constexpr int64_t kMostTreeBytes = int64_t{32} << 20;

}  // namespace dptrain
