#include "comm/exchange_plan.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "comm/element_run.h"

namespace dptrain {
namespace {

/// Below this size one round of small messages takes less time than two rounds of smaller ones.
constexpr int64_t kOneRoundBytes = 32 * 1024;

std::byte* at(void* data, int64_t element, DType dtype) {
  return static_cast<std::byte*>(data) + element * dtype_bytes(dtype);
}

/// The sum over a subtree of ranks, as far as this process has it.
struct Subtree {
  RankRun ranks;
  void* data = nullptr;
  DType dtype = DType::f32;  ///< of `data`
};

class ExchangePlanner {
 public:
  ExchangePlanner(std::span<const CommCall> calls, const WorldShape& world, int process, StagingPool& pool)
      : calls_(calls), world_(world), process_(process), own_(world.ranks_of(process)), pool_(pool) {}

  ExchangePlan plan() {
    switch (calls_[0].kind) {
      case CommKind::all_reduce: all_reduce(); break;
      case CommKind::reduce: reduce(); break;
      case CommKind::broadcast: broadcast(); break;
      case CommKind::reduce_scatter: reduce_scatter(); break;
      case CommKind::all_gather: all_gather(); break;
      case CommKind::barrier: barrier(); break;
      default: DPTRAIN_CHECK(false, "{} between processes", describe(calls_[0]));
    }
    return std::move(plan_);
  }

 private:
  DType dtype() const { return calls_[0].in.dtype; }
  int root() const { return calls_[0].other; }
  const CommCall& call_of(int rank) const { return calls_[static_cast<size_t>(rank - own_.begin)]; }
  ExchangeStage& stage(size_t number) {
    if (plan_.stages.size() <= number) plan_.stages.resize(number + 1);
    return plan_.stages[number];
  }
  void* staging(int64_t elements, DType type) {
    plan_.staging.push_back(pool_.take(elements * dtype_bytes(type)));
    return plan_.staging.back().get();
  }

  DType dtype_of(const RankRun& subtree) const { return subtree.size() > 1 ? partial_sum_dtype(dtype()) : dtype(); }

  /// Adds up the subtrees whose ranks this process has, over `elements` elements of the ranks' inputs.
  std::vector<Subtree> own_subtrees(int64_t elements) {
    std::vector<Subtree> subtrees;
    for (const RankRun& ranks : world_.whole_subtrees(process_)) {
      Subtree subtree{.ranks = ranks, .data = call_of(ranks.begin).in.data, .dtype = dtype_of(ranks)};
      if (ranks.size() > 1) {
        subtree.data = staging(elements, subtree.dtype);
        TreeSum sum{.inputs = {}, .outputs = {subtree.data}, .elements = elements, .dtype = dtype(), .partial = true};
        for (int rank = ranks.begin; rank < ranks.end; ++rank) sum.inputs.push_back(call_of(rank).in.data);
        stage(0).sums.push_back(std::move(sum));
      }
      subtrees.push_back(subtree);
    }
    return subtrees;
  }

  void send(size_t number, const Subtree& subtree, const ElementRun& part, int to) {
    message(number, true, to, at(subtree.data, part.begin, subtree.dtype),
            part.elements() * dtype_bytes(subtree.dtype));
  }

  void message(size_t number, bool sends, int process, void* data, int64_t bytes) {
    if (bytes > 0) stage(number).messages.push_back({.sends = sends, .process = process, .data = data, .bytes = bytes});
  }

  /// All subtrees of the world, in order, from element `part.begin` on. Those of other processes are there once stage 0
  /// has received them, each in staging memory of its own.
  std::vector<Subtree> all_once_received(const std::vector<Subtree>& own, const ElementRun& part) {
    std::vector<Subtree> all;
    for (int process = 0; process < world_.processes(); ++process) {
      if (process == process_) {
        for (const Subtree& subtree : own)
          all.push_back({subtree.ranks, at(subtree.data, part.begin, subtree.dtype), subtree.dtype});
        continue;
      }
      for (const RankRun& ranks : world_.whole_subtrees(process)) {
        const Subtree subtree{ranks, staging(part.elements(), dtype_of(ranks)), dtype_of(ranks)};
        message(0, false, process, subtree.data, part.elements() * dtype_bytes(subtree.dtype));
        all.push_back(subtree);
      }
    }
    return all;
  }

  /// The sum over the world of `elements` elements of the subtrees' data, from `first` on.
  TreeSum whole_sum(const std::vector<Subtree>& subtrees, int64_t first, int64_t elements,
                    std::vector<void*> outputs) const {
    DPTRAIN_CHECK(subtrees.size() <= kMostRanks, "a sum over {} subtrees of {} ranks, {} can be", subtrees.size(),
                  world_.ranks(), kMostRanks);
    TreeSum sum{.inputs = {}, .outputs = std::move(outputs), .elements = elements, .dtype = dtype()};
    for (const Subtree& subtree : subtrees) {
      sum.inputs.push_back(at(subtree.data, first, subtree.dtype));
      sum.widths.push_back(subtree.ranks.size());
    }
    return sum;
  }

  std::vector<void*> every_output(int64_t element) const {
    std::vector<void*> outputs;
    for (const CommCall& call : calls_) outputs.push_back(at(call.out.data, element, dtype()));
    return outputs;
  }
  std::vector<void*> later_outputs(int64_t element) const {
    std::vector<void*> outputs = every_output(element);
    outputs.erase(outputs.begin());
    return outputs;
  }

  template <class Act>
  void for_others(const Act& act) const {
    for (int process = 0; process < world_.processes(); ++process)
      if (process != process_) act(process);
  }

  bool takes_one_round(int64_t elements) const {
    if (elements * dtype_bytes(dtype()) <= kOneRoundBytes) return true;
    if (world_.processes() > 2) return false;
    for (int process = 0; process < world_.processes(); ++process) {
      const std::vector<RankRun> subtrees = world_.whole_subtrees(process);
      if (subtrees.size() > 1 || (!subtrees.empty() && dtype_of(subtrees[0]) != dtype())) return false;
    }
    return true;
  }

  void all_reduce() {
    const ElementRun whole{0, calls_[0].in.elements};
    const std::vector<Subtree> own = own_subtrees(whole.elements());
    if (takes_one_round(whole.elements())) {
      for_others([&](int to) {
        for (const Subtree& subtree : own) send(0, subtree, whole, to);
      });
      const std::vector<Subtree> all = all_once_received(own, whole);
      stage(1).sums.push_back(whole_sum(all, 0, whole.elements(), every_output(0)));
      return;
    }
    const auto part_of = [&](int process) { return ElementRun::part_of(whole.end, process, world_.processes()); };
    for_others([&](int to) {
      for (const Subtree& subtree : own) send(0, subtree, part_of(to), to);
    });
    const ElementRun mine = part_of(process_);
    const std::vector<Subtree> all = all_once_received(own, mine);
    stage(1).sums.push_back(whole_sum(all, 0, mine.elements(), every_output(mine.begin)));
    void* result = calls_[0].out.data;
    for_others([&](int other) {
      const ElementRun theirs = part_of(other);
      message(1, true, other, at(result, mine.begin, dtype()), mine.elements() * dtype_bytes(dtype()));
      message(1, false, other, at(result, theirs.begin, dtype()), theirs.elements() * dtype_bytes(dtype()));
      if (calls_.size() > 1)
        stage(2).sums.push_back({.inputs = {at(result, theirs.begin, dtype())},
                                 .outputs = later_outputs(theirs.begin),
                                 .elements = theirs.elements(),
                                 .dtype = dtype()});
    });
  }

  void reduce() {
    const ElementRun whole{0, calls_[0].in.elements};
    const std::vector<Subtree> own = own_subtrees(whole.elements());
    const int to = world_.process_of(root());
    if (to != process_) {
      for (const Subtree& subtree : own) send(0, subtree, whole, to);
      return;
    }
    const std::vector<Subtree> all = all_once_received(own, whole);
    stage(1).sums.push_back(whole_sum(all, 0, whole.elements(), {call_of(root()).out.data}));
  }

  void broadcast() {
    const int64_t elements = calls_[0].in.elements;
    const int from = world_.process_of(root());
    void* source = from == process_ ? call_of(root()).in.data : calls_[0].out.data;
    const int64_t bytes = elements * dtype_bytes(dtype());
    if (from == process_)
      for_others([&](int to) { message(0, true, to, source, bytes); });
    else
      message(0, false, from, source, bytes);
    TreeSum copy{.inputs = {source}, .outputs = {}, .elements = elements, .dtype = dtype()};
    for (const CommCall& call : calls_)
      if (call.out.data != source) copy.outputs.push_back(call.out.data);
    if (!copy.outputs.empty()) stage(1).sums.push_back(std::move(copy));
  }

  void reduce_scatter() {
    const int64_t each = calls_[0].out.elements;
    const auto part_of = [&](int process) {
      const RankRun ranks = world_.ranks_of(process);
      return ElementRun{ranks.begin * each, ranks.end * each};
    };
    const std::vector<Subtree> own = own_subtrees(each * world_.ranks());
    for_others([&](int to) {
      for (const Subtree& subtree : own) send(0, subtree, part_of(to), to);
    });
    const std::vector<Subtree> all = all_once_received(own, part_of(process_));
    for (int rank = own_.begin; rank < own_.end; ++rank)
      stage(1).sums.push_back(whole_sum(all, (rank - own_.begin) * each, each, {call_of(rank).out.data}));
  }

  void all_gather() {
    const int64_t each = calls_[0].in.elements;
    for (int rank = own_.begin; rank < own_.end; ++rank) {
      void* part = call_of(rank).in.data;
      stage(0).sums.push_back(
          {.inputs = {part}, .outputs = every_output(rank * each), .elements = each, .dtype = dtype()});
      for_others([&](int to) { message(0, true, to, part, each * dtype_bytes(dtype())); });
    }
    for_others([&](int from) {
      const RankRun ranks = world_.ranks_of(from);
      for (int rank = ranks.begin; rank < ranks.end; ++rank)
        message(0, false, from, at(calls_[0].out.data, rank * each, dtype()), each * dtype_bytes(dtype()));
      if (calls_.size() > 1 && ranks.size() > 0)
        stage(1).sums.push_back({.inputs = {at(calls_[0].out.data, ranks.begin * each, dtype())},
                                 .outputs = later_outputs(ranks.begin * each),
                                 .elements = ranks.size() * each,
                                 .dtype = dtype()});
    });
  }

  void barrier() {
    const int processes = world_.processes();
    auto* token = static_cast<std::byte*>(staging(2, DType::u8));
    size_t round = 0;
    for (int distance = 1; distance < processes; distance *= 2, ++round) {
      message(round, true, (process_ + distance) % processes, token, 1);
      message(round, false, (process_ + processes - distance) % processes, token + 1, 1);
    }
  }

  std::span<const CommCall> calls_;
  const WorldShape& world_;
  int process_;
  RankRun own_;
  StagingPool& pool_;
  ExchangePlan plan_;
};

}  // namespace

ExchangePlan plan_exchange(std::span<const CommCall> calls, const WorldShape& world, int process, StagingPool& pool) {
  DPTRAIN_CHECK(static_cast<int>(calls.size()) == world.ranks_of(process).size(), "{} calls of process {}",
                calls.size(), process);
  return ExchangePlanner(calls, world, process, pool).plan();
}

ExchangePlan plan_message(const CommCall& call, int process, StagingPool& pool) {
  const bool sends = call.kind == CommKind::send;
  const CommBuffer& payload = call.payload();
  ExchangePlan plan;
  plan.staging.push_back(pool.take(payload.bytes()));
  void* staging = plan.staging.back().get();
  const auto copy = [&](const void* from, void* to) {
    return TreeSum{.inputs = {from}, .outputs = {to}, .elements = payload.elements, .dtype = payload.dtype};
  };
  plan.stages.resize(2);
  if (sends) plan.stages[0].sums.push_back(copy(payload.data, staging));
  plan.stages[0].messages.push_back({.sends = sends, .process = process, .data = staging, .bytes = payload.bytes()});
  if (!sends) plan.stages[1].sums.push_back(copy(staging, payload.data));
  return plan;
}

}  // namespace dptrain
