#include "parallel/pipeline_schedule.h"

#include <algorithm>

#include "base/check.h"

namespace dptrain::parallel {
namespace {

using Kind = StageAction::Kind;

/// Adds passes over micro-batches [begin, end), one after the other.
struct Passes {
  std::vector<StageAction>& actions;
  int stage;

  void add(Kind kind, int64_t begin, int64_t end) const {
    for (int64_t m = begin; m < end; ++m) actions.push_back({.kind = kind, .micro_batch = m, .stage = stage});
  }
};

double seconds_of(Kind kind, const StageSeconds& stage) {
  switch (kind) {
    case Kind::forward: return stage.forward;
    case Kind::backward_data: return stage.backward;
    case Kind::backward_weights: return stage.backward_weights;
    default: return stage.backward + stage.backward_weights;
  }
}

std::vector<StageAction> gpipe(const PipelineStep& step, int stage) {
  std::vector<StageAction> actions;
  const Passes passes{.actions = actions, .stage = stage};
  const int64_t count = step.micro_batches, flush = step.flush > 0 ? step.flush : std::max<int64_t>(count, 1);
  for (int64_t begin = 0; begin < count; begin += flush) {
    const int64_t end = std::min(begin + flush, count);
    passes.add(Kind::forward, begin, end);
    passes.add(Kind::backward, begin, end);
  }
  return actions;
}

/// One backward for each forward. It is split into two passes if the schedule asks for that and it helps.
std::vector<StageAction> alternating(const PipelineStep& step, int stage) {
  std::vector<StageAction> actions;
  const Passes passes{.actions = actions, .stage = stage};
  const int64_t count = step.micro_batches;
  // This many micro-batches enter the stages behind this one before the first gradient can come back.
  const int64_t warm_up = std::min<int64_t>(step.stages - 1 - stage, count);
  const bool weights_apart = step.schedule == PipelineSchedule::zero_bubble && stage > 0;
  // The weight gradients of this many micro-batches are left for the end, when nothing else is to be done. While the
  // pipeline fills, they would hold up gradients on their way back.
  const int64_t kept = std::min<int64_t>(stage, count);
  passes.add(Kind::forward, 0, warm_up);
  for (int64_t m = 0; m < count; ++m) {
    if (m + warm_up < count) passes.add(Kind::forward, m + warm_up, m + warm_up + 1);
    passes.add(weights_apart ? Kind::backward_data : Kind::backward, m, m + 1);
    if (weights_apart && m >= kept) passes.add(Kind::backward_weights, m - kept, m - kept + 1);
  }
  if (weights_apart) passes.add(Kind::backward_weights, count - kept, count);
  return actions;
}

/// Works in rounds of as many micro-batches as there are devices. A round goes forward through all stages of a device,
/// and then back.
std::vector<StageAction> interleaved(const PipelineStep& step, int device) {
  const int64_t devices = step.devices();
  const std::vector<int> own = step.stages_on(device);
  // The last round is treated as a whole one, and its missing micro-batches are then left out. In this order no two
  // passes wait for each other; a shorter round by the same rule would make them do so.
  const int64_t count = (step.micro_batches + devices - 1) / devices * devices;
  std::vector<StageAction> forward, backward, actions;
  for (int64_t begin = 0; begin < count; begin += devices) {
    for (size_t nth = 0; nth < own.size(); ++nth) {
      Passes{.actions = forward, .stage = own[nth]}.add(Kind::forward, begin, begin + devices);
      Passes{.actions = backward, .stage = own[own.size() - 1 - nth]}.add(Kind::backward, begin, begin + devices);
    }
  }
  // The last device reaches its last stage after a round of all its other stages. Each device before it makes two more
  // passes until its first gradient comes back: one per direction for each device in between.
  const auto warm_up = std::min(std::ssize(forward), (std::ssize(own) - 1) * devices + 2 * (devices - 1 - device));
  const auto add = [&](const StageAction& action) {
    if (action.micro_batch < step.micro_batches) actions.push_back(action);
  };
  std::for_each_n(forward.begin(), warm_up, add);
  for (std::ptrdiff_t i = 0; i < std::ssize(backward); ++i) {
    if (i + warm_up < std::ssize(forward)) add(forward[static_cast<size_t>(i + warm_up)]);
    add(backward[static_cast<size_t>(i)]);
  }
  return actions;
}

}  // namespace

std::vector<int> PipelineStep::stages_on(int device) const {
  std::vector<int> own;
  for (int stage = device; stage < stages; stage += devices()) own.push_back(stage);
  return own;
}

std::string_view schedule_name(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::gpipe: return "gpipe";
    case PipelineSchedule::zero_bubble: return "zero_bubble";
    case PipelineSchedule::interleaved: return "interleaved";
    default: return "1f1b";
  }
}

std::vector<StageAction> actions_of(const PipelineStep& step, int device) {
  switch (step.schedule) {
    case PipelineSchedule::gpipe: return gpipe(step, device);
    case PipelineSchedule::interleaved: return interleaved(step, device);
    default: return alternating(step, device);
  }
}

std::set<HeldMicroBatches> held_in(std::span<const StageAction> actions, int stage) {
  std::set<HeldMicroBatches> all;
  HeldMicroBatches held;
  for (const StageAction& action : actions) {
    if (action.stage != stage) continue;
    const Kind kind = action.kind;
    if (kind == Kind::forward) ++held.whole;
    if (kind == Kind::backward || kind == Kind::backward_data) --held.whole;
    if (kind == Kind::backward_data) ++held.weights;
    if (kind == Kind::backward_weights) --held.weights;
    all.insert(held);
  }
  return all;
}

double step_seconds(const PipelineStep& step, std::span<const StageSeconds> stages) {
  struct Device {
    std::vector<StageAction> actions;
    size_t next = 0;
    double free_at = 0;
  };
  const std::vector<double> never(static_cast<size_t>(step.micro_batches), -1.0);
  // By stage and micro-batch; below 0 until known.
  std::vector<std::vector<double>> forward_done(stages.size(), never), backward_done(stages.size(), never);
  std::vector<Device> devices;
  size_t left = 0;
  for (int d = 0; d < step.devices(); ++d) {
    devices.push_back({.actions = actions_of(step, d)});
    left += devices.back().actions.size();
  }
  // Each device goes on until it needs a value that isn't there yet. The order of devices doesn't change the times.
  while (left > 0) {
    const size_t before = left;
    for (Device& own : devices) {
      for (; own.next < own.actions.size(); ++own.next, --left) {
        const StageAction& action = own.actions[own.next];
        const auto m = static_cast<size_t>(action.micro_batch), s = static_cast<size_t>(action.stage);
        const bool forward = action.kind == Kind::forward, weights = action.kind == Kind::backward_weights;
        double ready = 0;
        if (forward && s > 0) ready = forward_done[s - 1][m];
        if (!forward && !weights && s + 1 < stages.size()) ready = backward_done[s + 1][m];
        if (ready < 0) break;
        own.free_at = std::max(own.free_at, ready) + seconds_of(action.kind, stages[s]);
        if (!weights) (forward ? forward_done : backward_done)[s][m] = own.free_at;
      }
    }
    DPTRAIN_CHECK(left < before, "devices of a pipeline wait for each other for ever");
  }
  double end = 0;
  for (const Device& device : devices) end = std::max(end, device.free_at);
  return end;
}

double predicted_bubble(const PipelineStep& step, std::span<const StageSeconds> stages) {
  double busy = 0;
  for (const StageSeconds& stage : stages)
    busy += static_cast<double>(step.micro_batches) *
            (seconds_of(Kind::forward, stage) + seconds_of(Kind::backward, stage));
  const double whole = step_seconds(step, stages) * static_cast<double>(step.devices());
  return whole > 0 ? 1 - busy / whole : 0;
}

}  // namespace dptrain::parallel
