#include "train/training_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/host_name.h"
#include "parallel/trace_events.h"

namespace dptrain::train {
namespace {

using nlohmann::ordered_json;

// The first number ("pid") of the job's processes in the trace; smaller numbers are ranks.
constexpr int kFirstMainThread = 1'000'000;

/// The beginning of the training on this process's clock. Processes on the main process's host take its time, because
/// they share its clock.
Clock::time_point begin_of(const Experiment& experiment) {
  if (experiment.job == nullptr) return Clock::now();
  ProcessGroup& group = experiment.job->group;
  // When this returns, all processes have come here.
  group.largest(0);
  const Clock::time_point own = Clock::now();
  const std::string host = host_name();
  const std::string main = group.from_main(fmt::format("{} {}", own.time_since_epoch().count(), host));
  const size_t space = main.find(' ');
  if (main.substr(space + 1) != host) return own;
  return Clock::time_point(Clock::duration(std::stoll(main.substr(0, space))));
}

}  // namespace

TrainingTrace::TrainingTrace(const Experiment& experiment, const parallel::ShownSteps& steps)
    : experiment_(experiment), steps_(steps), begin_(begin_of(experiment)) {}

std::string TrainingTrace::events(const std::vector<std::vector<parallel::TimelineRow>>& ranks, int first_rank) {
  std::vector<std::string> processes;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const int rank = first_rank + static_cast<int>(r);
    parallel::TraceEvents events(rank, experiment_.rank_name(rank), begin_);
    for (const parallel::TimelineRow& row : ranks[r]) events.add(row);
    processes.push_back(events.text());
  }
  const int process = experiment_.job != nullptr ? experiment_.job->group.process() : 0;
  parallel::TraceEvents events(kFirstMainThread + process,
                               experiment_.job != nullptr ? fmt::format("process {}", process) : "process", begin_);
  main_thread_.settle();
  events.add("main thread", main_thread_.take());
  processes.push_back(events.text());
  return fmt::format("{}", fmt::join(processes, ",\n"));
}

std::string TrainingTrace::json(const std::vector<std::string>& events, int64_t step) const {
  const ordered_json about = {{"run", experiment_.name},
                              {"strategy", experiment_.strategy.name},
                              {"batch_size", experiment_.batch_size},
                              {"steps", fmt::format("{}-{}", steps_.first, std::min(step, steps_.last))}};
  return parallel::trace_json(about.dump(), events);
}

}  // namespace dptrain::train
