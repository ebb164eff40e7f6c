#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "parallel/rank_timelines.h"

namespace dptrain::parallel {

/// Events for chrome://tracing and Perfetto, in the Trace Event Format ("Trace Event Format", Google, 2016). They
/// belong to one of the format's processes, which here is a rank or a group of ranks.
class TraceEvents {
 public:
  /// `number` identifies the process and gives its position among the others. Times are microseconds since `begin`.
  TraceEvents(int number, const std::string& name, Clock::time_point begin);

  /// Adds rows for a rank's timeline. Computing has one row for each of the rank's threads and one for its memory.
  /// Exchanges have as many rows as exchanges were under way at once.
  void add(const TimelineRow& row);
  /// Adds a row of this name.
  void add(const std::string& name, const std::vector<TimelineSpan>& spans);

  /// The events as JSON, one per line, with commas between.
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

/// The beginning of every such file.
inline constexpr const char* kTraceBeginning = "{\"displayTimeUnit\"";
/// The whole file, with the events of all its processes. `about`: a JSON object that describes them.
std::string trace_json(const std::string& about, const std::vector<std::string>& events);

}  // namespace dptrain::parallel
