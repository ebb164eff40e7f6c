#pragma once

#include <string>
#include <vector>

#include "parallel/rank_timelines.h"
#include "plan/planned_step.h"
#include "plan/step_times.h"

namespace dptrain::plan {

/// The timeline of each planned rank, with the rows and names of a training run's timeline: the step, its parts, its
/// operators, its waits for other ranks, and its exchanges. `step` must have been planned with its parts, and `times`
/// must be its times.
std::vector<std::vector<parallel::TimelineRow>> planned_timelines(const PlannedStep& step, const StepTimes& times);

/// The same timeline as a file for chrome://tracing and Perfetto; see parallel/trace_events.h. `about`: a JSON object
/// that describes the plan.
std::string planned_trace(const PlannedStep& step, const StepTimes& times, const std::string& about);

}  // namespace dptrain::plan
