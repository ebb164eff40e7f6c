#include "comm/rank_tree_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "comm/element_run.h"
#include "comm/tree_sum.h"

namespace dptrain {
namespace {

using Buffer = BufferPlace::Buffer;

/// Alignment of buffers in the staging memory, in bytes.
constexpr int64_t kAlignment = 256;

class RankTreePlanner {
 public:
  RankTreePlanner(const CommCall& call, const RankTreeOptions& options)
      : call_(call),
        options_(options),
        nodes_(options.nodes),
        rank_(options.rank),
        node_(nodes_.process_of(rank_)),
        own_(nodes_.ranks_of(node_)),
        parts_(parts_of_ranks()) {}

  RankTreePlan plan() {
    plan_.stages.resize(4);
    lay_out_shares();
    exchange_in_node();
    add_up_in_node();
    send_to_owners();
    const BufferPlace sum = add_up_own_part();
    if (call_.kind == CommKind::all_reduce) {
      send_to_nodes();
      spread_in_node();
    } else if (call_.kind == CommKind::reduce) {
      send_to_root(sum);
    }
    return std::move(plan_);
  }

 private:
  int ranks() const { return nodes_.ranks(); }
  DType dtype() const { return call_.in.dtype; }
  const ElementRun& part_of(int rank) const { return parts_[static_cast<size_t>(rank)]; }
  RankStage& stage(size_t number) { return plan_.stages[number]; }
  BufferPlace at(Buffer buffer, int64_t element) const { return {buffer, element * dtype_bytes(dtype())}; }
  DType dtype_of(const RankRun& subtree) const { return subtree.size() > 1 ? partial_sum_dtype(dtype()) : dtype(); }
  template <class Act>
  void for_nodes(const Act& act) const {
    for (int node = 0; node < nodes_.processes(); ++node)
      if (node != node_) act(node);
  }
  template <class Act>
  void for_neighbors(const Act& act) const {
    for (int rank = own_.begin; rank < own_.end; ++rank)
      if (rank != rank_) act(rank);
  }

  /// The part of the sum that each rank makes. A reduce_scatter fixes the parts. For other calls, ranks at the same
  /// place in their nodes get adjacent parts, so that a rank's share of the parts is one run.
  std::vector<ElementRun> parts_of_ranks() const {
    std::vector<ElementRun> parts(static_cast<size_t>(ranks()));
    if (call_.kind == CommKind::reduce_scatter) {
      for (int rank = 0; rank < ranks(); ++rank)
        parts[static_cast<size_t>(rank)] = {rank * call_.out.elements, (rank + 1) * call_.out.elements};
      return parts;
    }
    std::vector<int> order(parts.size());
    std::iota(order.begin(), order.end(), 0);
    const auto place = [this](int rank) {
      const RankRun node = nodes_.ranks_of(nodes_.process_of(rank));
      return std::pair<int64_t, int64_t>{rank - node.begin, node.size()};
    };
    std::ranges::stable_sort(order, [&](int a, int b) {
      const auto [place_a, size_a] = place(a);
      const auto [place_b, size_b] = place(b);
      return place_a * size_b < place_b * size_a;
    });
    for (size_t p = 0; p < order.size(); ++p)
      parts[static_cast<size_t>(order[p])] = ElementRun::part_of(call_.in.elements, static_cast<int64_t>(p), ranks());
    return parts;
  }

  /// The rank of a node that adds up the node's subtrees for `owner`'s part: the one at the same place in its node.
  int leader(int node, int owner) const {
    const RankRun there = nodes_.ranks_of(node), home = nodes_.ranks_of(nodes_.process_of(owner));
    return there.begin + (owner - home.begin) * there.size() / home.size();
  }

  /// Finds the parts that each rank of this node leads, in runs.
  void lay_out_shares() {
    std::vector<int> order(parts_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [this](int owner) { return part_of(owner).begin; });
    shares_.resize(static_cast<size_t>(own_.size()));
    for (const int owner : order) {
      const ElementRun& part = part_of(owner);
      if (part.elements() == 0) continue;
      const int led_by = leader(node_, owner);
      std::vector<ElementRun>& share = shares_[static_cast<size_t>(led_by - own_.begin)];
      if (!share.empty() && share.back().end == part.begin)
        share.back().end = part.end;
      else
        share.push_back(part);
      if (led_by == rank_) {
        led_.push_back(owner);
        packed_[part.begin] = share_elements_;
        share_elements_ += part.elements();
      }
    }
    // With one node, only the whole sum has to be sent.
    if (nodes_.processes() > 1)
      subtrees_ = nodes_.whole_subtrees(node_);
    else
      for (int rank = 0; rank < ranks(); ++rank) subtrees_.push_back({rank, rank + 1});
  }
  const std::vector<ElementRun>& share_of(int rank) const { return shares_[static_cast<size_t>(rank - own_.begin)]; }

  BufferPlace staging(int64_t elements, DType type) {
    const BufferPlace place{Buffer::staging, plan_.staging_bytes};
    plan_.staging_bytes += (elements * dtype_bytes(type) + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }
  static BufferPlace moved(BufferPlace place, int64_t elements, DType type) {
    place.byte += elements * dtype_bytes(type);
    return place;
  }
  void message(size_t number, bool sends, int rank, const BufferPlace& place, int64_t bytes) {
    if (bytes > 0) stage(number).messages.push_back({.sends = sends, .rank = rank, .place = place, .bytes = bytes});
  }

  void exchange_in_node() {
    for_neighbors([&](int other) {
      for (const ElementRun& run : share_of(other))
        message(0, true, other, at(Buffer::in, run.begin), run.elements() * dtype_bytes(dtype()));
      const BufferPlace received = staging(share_elements_, dtype());
      of_neighbors_[other] = received;
      for (const ElementRun& run : share_of(rank_))
        message(0, false, other, moved(received, packed_.at(run.begin), dtype()),
                run.elements() * dtype_bytes(dtype()));
    });
  }

  /// Where this rank has the data of a rank of this node, from `element` of this rank's share on.
  BufferPlace of_rank(int rank, int64_t element) const {
    return rank == rank_ ? at(Buffer::in, element) : moved(of_neighbors_.at(rank), packed_.at(element), dtype());
  }

  void add_up_in_node() {
    for (const RankRun& ranks : subtrees_) {
      if (ranks.size() == 1) continue;
      const BufferPlace sums = of_subtrees_[ranks.begin] = staging(share_elements_, dtype_of(ranks));
      for (const ElementRun& run : share_of(rank_)) {
        RankSum sum{.output = moved(sums, packed_.at(run.begin), dtype_of(ranks)),
                    .elements = run.elements(),
                    .dtype = dtype(),
                    .widths = std::vector<int>(static_cast<size_t>(ranks.size()), 1),
                    .partial = true};
        for (int rank = ranks.begin; rank < ranks.end; ++rank) sum.inputs.push_back(of_rank(rank, run.begin));
        add(1, std::move(sum));
      }
    }
  }

  /// Where this rank has the sum of one of its node's subtrees over a part that it leads.
  BufferPlace of_subtree(const RankRun& ranks, const ElementRun& part) const {
    if (ranks.size() == 1) return of_rank(ranks.begin, part.begin);
    return moved(of_subtrees_.at(ranks.begin), packed_.at(part.begin), dtype_of(ranks));
  }

  void send_to_owners() {
    for (const int owner : led_) {
      if (owner == rank_) continue;
      const ElementRun& part = part_of(owner);
      for (const RankRun& ranks : subtrees_)
        message(1, true, owner, of_subtree(ranks, part), part.elements() * dtype_bytes(dtype_of(ranks)));
    }
  }

  /// Adds up this rank's own part of the whole sum. Returns where it is.
  BufferPlace add_up_own_part() {
    const ElementRun& own = part_of(rank_);
    const bool is_left_here = call_.kind == CommKind::reduce && call_.other != rank_;
    const BufferPlace output = is_left_here                             ? staging(own.elements(), dtype())
                               : call_.kind == CommKind::reduce_scatter ? at(Buffer::out, 0)
                                                                        : at(Buffer::out, own.begin);
    if (own.elements() == 0) return output;
    RankSum sum{.output = output, .elements = own.elements(), .dtype = dtype()};
    const auto add_input = [&sum](const RankRun& ranks, const BufferPlace& place) {
      sum.inputs.push_back(place);
      sum.widths.push_back(ranks.size());
    };
    for (int node = 0; node < nodes_.processes(); ++node) {
      if (node == node_) {
        for (const RankRun& ranks : subtrees_) add_input(ranks, of_subtree(ranks, own));
        continue;
      }
      for (const RankRun& ranks : nodes_.whole_subtrees(node)) {
        const BufferPlace received = staging(own.elements(), dtype_of(ranks));
        message(1, false, leader(node, rank_), received, own.elements() * dtype_bytes(dtype_of(ranks)));
        add_input(ranks, received);
      }
    }
    add(2, std::move(sum));
    return output;
  }

  /// Adds a sum to a stage. If it has too many inputs, it is made from sums of its subtrees.
  void add(size_t number, RankSum sum) {
    if (static_cast<int>(sum.inputs.size()) <= options_.most_inputs) {
      stage(number).sums.push_back(std::move(sum));
      return;
    }
    RankSum of_subtrees{.output = sum.output, .elements = sum.elements, .dtype = sum.dtype, .partial = sum.partial};
    for (const InputRun& run : subtrees_of(sum.widths, options_.most_inputs)) {
      of_subtrees.widths.push_back(run.ranks);
      if (run.inputs == 1) {
        of_subtrees.inputs.push_back(sum.inputs[static_cast<size_t>(run.first)]);
        continue;
      }
      const auto part_of_run = [&run](const auto& whole) {
        return std::vector(whole.begin() + run.first, whole.begin() + run.first + run.inputs);
      };
      const BufferPlace output = staging(sum.elements, partial_sum_dtype(sum.dtype));
      of_subtrees.inputs.push_back(output);
      add(number, {.inputs = part_of_run(sum.inputs),
                   .output = output,
                   .elements = sum.elements,
                   .dtype = sum.dtype,
                   .widths = part_of_run(sum.widths),
                   .partial = true});
    }
    add(number, std::move(of_subtrees));
  }

  void send_to_nodes() {
    const auto bytes_of = [this](int owner) { return part_of(owner).elements() * dtype_bytes(dtype()); };
    const auto place_of = [this](int owner) { return at(Buffer::out, part_of(owner).begin); };
    for_nodes([&](int node) { message(2, true, leader(node, rank_), place_of(rank_), bytes_of(rank_)); });
    for (const int owner : led_)
      if (owner != rank_) message(2, false, owner, place_of(owner), bytes_of(owner));
  }

  void spread_in_node() {
    for_neighbors([&](int other) {
      for (const bool sends : {true, false})
        for (const ElementRun& run : share_of(sends ? rank_ : other))
          message(3, sends, other, at(Buffer::out, run.begin), run.elements() * dtype_bytes(dtype()));
    });
  }

  void send_to_root(const BufferPlace& sum) {
    const auto bytes_of = [this](int owner) { return part_of(owner).elements() * dtype_bytes(dtype()); };
    if (rank_ != call_.other) return message(2, true, call_.other, sum, bytes_of(rank_));
    for (int owner = 0; owner < ranks(); ++owner)
      if (owner != rank_) message(2, false, owner, at(Buffer::out, part_of(owner).begin), bytes_of(owner));
  }

  const CommCall& call_;
  const RankTreeOptions& options_;
  const WorldShape& nodes_;
  const int rank_;
  const int node_;
  const RankRun own_;
  const std::vector<ElementRun> parts_;          ///< by the rank that makes the part
  std::vector<RankRun> subtrees_;                ///< subtrees that this node adds up
  std::vector<std::vector<ElementRun>> shares_;  ///< by rank of this node
  std::vector<int> led_;                         ///< ranks whose parts are this rank's share
  int64_t share_elements_ = 0;
  std::map<int64_t, int64_t> packed_;        ///< a part's first element: its offset in this share
  std::map<int, BufferPlace> of_neighbors_;  ///< by rank: its data for this rank's share, one run behind the other
  std::map<int, BufferPlace> of_subtrees_;   ///< by first rank: the subtree's sums over the share
  RankTreePlan plan_;
};

}  // namespace

std::vector<CommCall> pieces_of(const CommCall& call, int64_t most_bytes) {
  if (call.kind == CommKind::reduce_scatter) return {call};
  const int64_t width = dtype_bytes(call.in.dtype), most = most_bytes / width;
  std::vector<CommCall> pieces;
  for (int64_t begin = 0; begin < call.in.elements; begin += most) {
    auto* const data = static_cast<std::byte*>(call.in.data);
    const CommBuffer piece{.data = data == nullptr ? data : data + begin * width,
                           .elements = std::min(most, call.in.elements - begin),
                           .dtype = call.in.dtype};
    pieces.push_back({.kind = call.kind, .in = piece, .out = piece, .other = call.other});
  }
  return pieces;
}

RankTreePlan plan_rank_tree(const CommCall& call, const RankTreeOptions& options) {
  DPTRAIN_CHECK(
      call.kind == CommKind::all_reduce || call.kind == CommKind::reduce || call.kind == CommKind::reduce_scatter,
      "{} in the tree's order", describe(call));
  return RankTreePlanner(call, options).plan();
}

const RankTreePlan& RankTreePlans::of(const CommCall& call) {
  const auto [found, is_new] =
      plans_.try_emplace({call.kind, call.payload().elements, call.in.dtype, call.other}, RankTreePlan{});
  if (is_new) found->second = plan_rank_tree(call, options_);
  return found->second;
}

bool goes_by_tree(const CommCall& call, TreeSums sums) {
  switch (call.kind) {
    case CommKind::all_reduce:
    case CommKind::reduce:
    case CommKind::reduce_scatter: break;
    default: return false;
  }
  return can_sum(call.in.dtype) && (sums == TreeSums::all || dtype_bytes(call.in.dtype) < 4);
}

}  // namespace dptrain
