#include "parallel/interleaved_cut.h"

#include <algorithm>
#include <compare>
#include <utility>
#include <vector>

namespace dptrain::parallel {
namespace {

/// Limit of micro-batches per device in the step whose time is compared: they show how a longer step goes on.
constexpr int64_t kComparedRounds = 4;

/// The cost that the search minimizes: bytes first, then seconds.
struct CutCost {
  int64_t bytes_over = 0;  ///< bytes over the limit, summed over devices
  double seconds = 0;      ///< time of a step

  auto operator<=>(const CutCost&) const = default;
};

class Search {
 public:
  Search(std::span<const UnitCost> units, PipelineStep step, int64_t limit_bytes)
      : units_(units), step_(step), limit_bytes_(limit_bytes) {
    step_.micro_batches = std::min(step_.micro_batches, kComparedRounds * step_.devices());
    for (int device = 0; device < step_.devices(); ++device) actions_.push_back(actions_of(step_, device));
  }

  CutCost cost(const PipelineCut& cut) const {
    std::vector<StageSeconds> seconds;
    std::vector<UnitCost> stages;
    for (const auto& [begin, end] : cut) {
      const UnitCost& stage =
          stages.emplace_back(cost_of(units_.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))));
      seconds.push_back({.forward = stage.seconds / 3, .backward = 2 * stage.seconds / 3});
    }
    CutCost cost{.seconds = step_seconds(step_, seconds)};
    for (int device = 0; limit_bytes_ > 0 && device < step_.devices(); ++device)
      cost.bytes_over += std::max<int64_t>(bytes_on(device, stages) - limit_bytes_, 0);
    return cost;
  }

 private:
  int64_t bytes_on(int device, const std::vector<UnitCost>& stages) const {
    int64_t fixed = 0, most = 0, kept = 0, most_kept = 0;
    for (const int stage : step_.stages_on(device)) {
      fixed += stages[static_cast<size_t>(stage)].fixed_bytes;
      most = std::max(most, stages[static_cast<size_t>(stage)].most_bytes);
    }
    for (const auto& [kind, micro_batch, stage] : actions_[static_cast<size_t>(device)]) {
      const UnitCost& cost = stages[static_cast<size_t>(stage)];
      const int64_t of_stage = cost.input_bytes + cost.kept_bytes;
      kept += kind == StageAction::Kind::forward ? of_stage : -of_stage;
      most_kept = std::max(most_kept, kept);
    }
    return fixed + most + most_kept;
  }

  std::span<const UnitCost> units_;
  PipelineStep step_;
  int64_t limit_bytes_;
  std::vector<std::vector<StageAction>> actions_;  ///< by device
};

/// Moves the end of stage `stage` by `units`; returns false if that leaves a stage empty.
bool move_end(PipelineCut& cut, size_t stage, int units) {
  cut[stage].end += units;
  cut[stage + 1].begin += units;
  return cut[stage].begin < cut[stage].end && cut[stage + 1].begin < cut[stage + 1].end;
}

/// Returns the cuts that are one or two moves away.
std::vector<PipelineCut> neighbors_of(const PipelineCut& cut) {
  std::vector<PipelineCut> all;
  const size_t ends = cut.size() - 1;
  for (size_t a = 0; a < ends; ++a)
    for (const int by_a : {-1, 1}) {
      PipelineCut moved = cut;
      const bool is_cut = move_end(moved, a, by_a);
      if (is_cut) all.push_back(moved);
      for (size_t b = a + 1; b < ends; ++b)
        for (const int by_b : {-1, 1})
          // The first move may leave a stage empty if the second one fills it.
          if (PipelineCut twice = moved;
              move_end(twice, b, by_b) && twice[a].begin < twice[a].end && twice[a + 1].begin < twice[a + 1].end)
            all.push_back(std::move(twice));
    }
  return all;
}

}  // namespace

PipelineCut interleaved_cut(std::span<const UnitCost> units, const PipelineStep& step, int64_t limit_bytes,
                            const std::vector<PipelineCut>& begins) {
  const Search search(units, step, limit_bytes);
  std::vector<std::pair<CutCost, PipelineCut>> found;
  for (const PipelineCut& begin : begins) {
    auto& [least, best] = found.emplace_back(search.cost(begin), begin);
    for (bool is_moving = true; is_moving;) {
      is_moving = false;
      for (PipelineCut& moved : neighbors_of(best)) {
        const CutCost cost = search.cost(moved);
        if (!(cost < least)) continue;
        best = std::move(moved);
        least = cost;
        is_moving = true;
      }
    }
  }
  return std::ranges::min_element(found, {}, [](const auto& end) { return end.first; })->second;
}

}  // namespace dptrain::parallel
