#include "parallel/pipeline_schedule.h"

#include <algorithm>

namespace dptrain::parallel {
namespace {

using Kind = StageAction::Kind;

void add(std::vector<StageAction>& actions, Kind kind, int64_t begin, int64_t end) {
  for (int64_t m = begin; m < end; ++m) actions.push_back({.kind = kind, .micro_batch = m});
}

double seconds_of(Kind kind, const StageSeconds& stage) {
  switch (kind) {
    case Kind::forward: return stage.forward;
    case Kind::backward_data: return stage.backward;
    case Kind::backward_weights: return stage.backward_weights;
    default: return stage.backward + stage.backward_weights;
  }
}

}  // namespace

std::string_view schedule_name(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::gpipe: return "gpipe";
    case PipelineSchedule::zero_bubble: return "zero_bubble";
    default: return "1f1b";
  }
}

std::vector<StageAction> actions_of(const PipelineStep& step, int stage) {
  std::vector<StageAction> actions;
  const int64_t count = step.micro_batches;
  if (step.schedule == PipelineSchedule::gpipe) {
    const int64_t flush = step.flush > 0 ? step.flush : std::max<int64_t>(count, 1);
    for (int64_t begin = 0; begin < count; begin += flush) {
      const int64_t end = std::min(begin + flush, count);
      add(actions, Kind::forward, begin, end);
      add(actions, Kind::backward, begin, end);
    }
    return actions;
  }
  // So many micro-batches are on their way behind this stage before the first gradient can come back.
  const int64_t warm_up = std::min<int64_t>(step.stages - 1 - stage, count);
  const bool weights_apart = step.schedule == PipelineSchedule::zero_bubble && stage > 0;
  // So many micro-batches' gradients of weights are left for the end, when nothing else is to be done, so that nothing
  // that goes back is held up by them while the pipeline fills.
  const int64_t kept = std::min<int64_t>(stage, count);
  add(actions, Kind::forward, 0, warm_up);
  for (int64_t m = 0; m < count; ++m) {
    if (m + warm_up < count) add(actions, Kind::forward, m + warm_up, m + warm_up + 1);
    add(actions, weights_apart ? Kind::backward_data : Kind::backward, m, m + 1);
    if (weights_apart && m >= kept) add(actions, Kind::backward_weights, m - kept, m - kept + 1);
  }
  if (weights_apart) add(actions, Kind::backward_weights, count - kept, count);
  return actions;
}

std::set<HeldMicroBatches> held_in(std::span<const StageAction> actions) {
  std::set<HeldMicroBatches> all;
  HeldMicroBatches held;
  for (const auto& [kind, micro_batch] : actions) {
    if (kind == Kind::forward) ++held.whole;
    if (kind == Kind::backward || kind == Kind::backward_data) --held.whole;
    if (kind == Kind::backward_data) ++held.weights;
    if (kind == Kind::backward_weights) --held.weights;
    all.insert(held);
  }
  return all;
}

double predicted_bubble(const PipelineStep& step, std::span<const StageSeconds> stages) {
  struct Stage {
    std::vector<StageAction> actions;
    size_t next = 0;
    double free_at = 0;
    std::vector<double> forward_done, backward_done;  // by micro-batch, below 0 until it is
  };
  std::vector<Stage> at;
  size_t left = 0;
  double busy = 0;
  for (int s = 0; s < step.stages; ++s) {
    const std::vector<double> never(static_cast<size_t>(step.micro_batches), -1.0);
    at.push_back({.actions = actions_of(step, s), .forward_done = never, .backward_done = never});
    left += at.back().actions.size();
    for (const StageAction& action : at.back().actions) busy += seconds_of(action.kind, stages[static_cast<size_t>(s)]);
  }
  // Each stage goes on as far as what it needs has come; whoever is asked first changes no time.
  while (left > 0) {
    for (size_t s = 0; s < at.size(); ++s) {
      for (Stage& own = at[s]; own.next < own.actions.size(); ++own.next, --left) {
        const auto [kind, micro_batch] = own.actions[own.next];
        const auto m = static_cast<size_t>(micro_batch);
        const bool forward = kind == Kind::forward, weights = kind == Kind::backward_weights;
        double ready = 0;
        if (forward && s > 0) ready = at[s - 1].forward_done[m];
        if (!forward && !weights && s + 1 < at.size()) ready = at[s + 1].backward_done[m];
        if (ready < 0) break;
        own.free_at = std::max(own.free_at, ready) + seconds_of(kind, stages[s]);
        if (!weights) (forward ? own.forward_done : own.backward_done)[m] = own.free_at;
      }
    }
  }
  double end = 0;
  for (const Stage& stage : at) end = std::max(end, stage.free_at);
  const double whole = end * static_cast<double>(step.stages);
  return whole > 0 ? 1 - busy / whole : 0;
}

}  // namespace dptrain::parallel
