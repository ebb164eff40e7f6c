#include "plan/planned_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "comm/exchange_span.h"
#include "parallel/trace_events.h"

namespace dptrain::plan {
namespace {

Clock::time_point moment(double seconds) {
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
}

TimelineSpan span_of(std::string name, double begin, double end) {
  return {.name = std::move(name), .begin = moment(begin), .end = moment(end)};
}

/// The contents of a rank's rows, for one step or for several consecutive ones.
struct DrawnRank {
  const std::vector<OperatorCost>& operators;
  const CallLog& calls;
  const std::vector<PlannedPart>& parts;
  const RankCourse& course;
};

/// Adds spans. Spans that begin at the same time are ordered from the outermost to the innermost.
void add_computing(const DrawnRank& rank, std::vector<TimelineSpan>& spans) {
  const std::vector<Stretch>& when = rank.course.operators;
  DPTRAIN_CHECK(when.size() == rank.operators.size(), "{} of {} operators were played", when.size(),
                rank.operators.size());
  for (const PlannedPart& part : rank.parts)
    spans.push_back(span_of(part.name, when[part.begin].begin, when[part.end - 1].end));
  for (size_t k = 0; k < rank.operators.size(); ++k) {
    const OperatorCost& cost = rank.operators[k];
    TimelineSpan span = span_of(cost.name, when[k].begin, when[k].end);
    span.operands = cost.operands;
    span.flops = cost.flops;
    span.held_bytes = cost.held_bytes;
    spans.push_back(std::move(span));
  }
  for (const Stretch& wait : rank.course.waits) spans.push_back(span_of("wait for others", wait.begin, wait.end));
}

TimelineSpan exchange_of(const LoggedCall& logged, const PlayedCall& played) {
  CommCall call = logged.call;
  if (logged.members && call.other >= 0) call.other = (*logged.members)[static_cast<size_t>(call.other)];
  TimelineSpan span = exchange_span(call, logged.key ? "servers" : "");
  span.begin = moment(played.begin);
  span.end = moment(played.end.value_or(played.together));
  span.alone = moment(played.together) - span.begin;
  return span;
}

void erase_moments(std::vector<TimelineSpan>& spans) {
  std::erase_if(spans, [](const TimelineSpan& span) { return span.end <= span.begin; });
  std::ranges::stable_sort(spans, {}, &TimelineSpan::begin);
}

DrawnRank drawn(const PlannedStep& step, const StepTimes& times, size_t rank) {
  if (!step.following.empty()) {
    const FollowingSteps& of = step.following[rank];
    return {.operators = of.operators, .calls = of.calls, .parts = of.parts, .course = times.courses[rank]};
  }
  const PlannedRank& of = step.ranks[rank];
  return {.operators = of.operators, .calls = of.calls, .parts = of.parts, .course = times.courses[rank]};
}

}  // namespace

std::vector<std::vector<parallel::TimelineRow>> planned_timelines(const PlannedStep& step, const StepTimes& times) {
  std::vector<std::vector<parallel::TimelineRow>> ranks;
  for (size_t r = 0; r < step.ranks.size(); ++r) {
    const DrawnRank rank = drawn(step, times, r);
    parallel::TimelineRow computing, communication;
    communication.is_communication = true;
    // If several steps are drawn, each has its own span among the parts.
    if (step.following.empty()) {
      computing.spans.push_back(span_of("step", 0, times.step_s));
      computing.spans.push_back(span_of("neither computing nor waiting", times.step_s - times.host_s, times.step_s));
    }
    add_computing(rank, computing.spans);
    for (size_t k = 0; k < rank.calls.size(); ++k)
      communication.spans.push_back(exchange_of(rank.calls[k], rank.course.calls[k]));
    erase_moments(computing.spans);
    erase_moments(communication.spans);
    ranks.push_back({std::move(computing), std::move(communication)});
  }
  return ranks;
}

std::string planned_trace(const PlannedStep& step, const StepTimes& times, const std::string& about) {
  const auto timelines = planned_timelines(step, times);
  std::vector<std::string> ranks;
  for (size_t r = 0; r < timelines.size(); ++r) {
    const std::string name = fmt::format("rank {} ({})", r, step.ranks[r].device.name());
    parallel::TraceEvents events(static_cast<int>(r), name, moment(0));
    for (const parallel::TimelineRow& row : timelines[r]) events.add(row);
    ranks.push_back(events.text());
  }
  return parallel::trace_json(about, ranks);
}

}  // namespace dptrain::plan
