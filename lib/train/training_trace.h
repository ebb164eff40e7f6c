#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/timeline.h"
#include "parallel/rank_timelines.h"
#include "train/experiment.h"

namespace dptrain::train {

/// What is shown of a training: steps, as parallel/trace_events.h has them: a process for each rank, and one for each
/// process of the job with what its main thread does between.
///
/// Times are since the beginning of the training. Processes of one host share its clock; those of others
/// set theirs when all have met, which is as far off as the meeting took.
class TrainingTrace {
 public:
  /// All processes of a job make theirs alike.
  TrainingTrace(const Experiment& experiment, const parallel::ShownSteps& steps);

  const parallel::ShownSteps& steps() const { return steps_; }
  /// What the main thread is at.
  Timeline& main_thread() { return main_thread_; }
  /// The main thread comes to this step.
  void begin_step(int64_t step) { main_thread_.keep(steps_.contains(step)); }

  /// Events of this process: a line each. `ranks`: what its ranks were at, from rank `first_rank` of the world on.
  std::string events(const std::vector<std::vector<parallel::TimelineRow>>& ranks, int first_rank);
  /// The whole file, from the events of all processes. `step`: the last one that was trained.
  std::string json(const std::vector<std::string>& events, int64_t step) const;

 private:
  const Experiment& experiment_;
  parallel::ShownSteps steps_;
  Clock::time_point begin_;
  HostTimeline main_thread_;
};

}  // namespace dptrain::train
