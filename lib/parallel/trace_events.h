#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "parallel/rank_timelines.h"

namespace dptrain::parallel {

/// Events that chrome://tracing and Perfetto draw, in the Trace Event Format ("Trace Event Format", Google, 2016):
/// those of one of its processes, which here is a rank, or what ranks belong to.
class TraceEvents {
 public:
  /// `number` tells it from others, and is its place among them. Times are microseconds since `begin`.
  TraceEvents(int number, const std::string& name, Clock::time_point begin);

  /// Rows for what a rank was at: what it computed, one for each of its threads, with its memory; or what it exchanged,
  /// as many as were under way at once.
  void add(const TimelineRow& row);
  /// A row of this name.
  void add(const std::string& name, const std::vector<TimelineSpan>& spans);

  /// A line of JSON each, with commas between.
  std::string text() const;

 private:
  void name_row(int row, const std::string& name);
  void add_span(int row, const TimelineSpan& span);
  void add_computing(const TimelineRow& row);
  void add_communication(const TimelineRow& row);

  int number_;
  Clock::time_point begin_;
  std::vector<std::string> lines_;
};

/// How such a file begins.
inline constexpr const char* kTraceBeginning = "{\"displayTimeUnit\"";
/// The whole file: the events of all its processes. `about`: an object of JSON that says what they are of.
std::string trace_json(const std::string& about, const std::vector<std::string>& events);

}  // namespace dptrain::parallel
