#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/timeline.h"
#include "parallel/rank_timelines.h"
#include "train/experiment.h"

namespace dptrain::train {

/// The trace of a training run's steps, in the form of parallel/trace_events.h. It has a process for each rank, and one
/// for the main thread of each process of the job.
///
/// Times are relative to the beginning of the training. Processes on one host share its clock. Processes on other hosts
/// take the time at which all have met as the beginning, so their error is the duration of that meeting.
class TrainingTrace {
 public:
  /// All processes of a job must make one, with the same arguments.
  TrainingTrace(const Experiment& experiment, const parallel::ShownSteps& steps);

  const parallel::ShownSteps& steps() const { return steps_; }
  /// The timeline of the main thread.
  Timeline& main_thread() { return main_thread_; }
  /// The main thread begins this step.
  void begin_step(int64_t step) { main_thread_.keep(steps_.contains(step)); }

  /// The events of this process, one per line. `ranks`: the timelines of its ranks, from rank `first_rank` of the world
  /// on.
  std::string events(const std::vector<std::vector<parallel::TimelineRow>>& ranks, int first_rank);
  /// The whole file, from the events of all processes. `step`: the last trained step.
  std::string json(const std::vector<std::string>& events, int64_t step) const;

 private:
  const Experiment& experiment_;
  parallel::ShownSteps steps_;
  Clock::time_point begin_;
  HostTimeline main_thread_;
};

}  // namespace dptrain::train
