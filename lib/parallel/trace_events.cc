#include "parallel/trace_events.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dptrain::parallel {
namespace {

using nlohmann::ordered_json;

// Row numbers ("tid").
constexpr int kFirstExchangeRow = 1000;

/// Microseconds with a resolution of a nanosecond, which a double keeps in runs of up to a year.
double microseconds(Clock::duration duration) {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count()) / 1000;
}

ordered_json arguments_of(const TimelineSpan& span) {
  ordered_json arguments = ordered_json::object();
  if (!span.operands.empty()) arguments["of"] = span.operands;
  if (!span.way.empty()) arguments["way"] = span.way;
  if (span.flops > 0) {
    arguments["gflop"] = span.flops / 1e9;
    const double seconds = seconds_between(span.begin, span.end);
    if (seconds > 0) arguments["gflop_per_s"] = span.flops / 1e9 / seconds;
  }
  if (span.bytes > 0) arguments["bytes"] = span.bytes;
  if (span.alone > Clock::duration::zero()) arguments["waited_for_ranks_us"] = microseconds(span.alone);
  return arguments;
}

/// "computing", or "computing (12 spans left out)".
std::string name_of(const char* name, const TimelineRow& row) {
  return row.left_out == 0 ? name : fmt::format("{} ({} spans left out)", name, row.left_out);
}

}  // namespace

TraceEvents::TraceEvents(int number, const std::string& name, Clock::time_point begin)
    : number_(number), begin_(begin) {
  for (const auto& [what, arguments] : {std::pair("process_name", ordered_json{{"name", name}}),
                                        std::pair("process_sort_index", ordered_json{{"sort_index", number}})})
    lines_.push_back(ordered_json{{"ph", "M"}, {"pid", number_}, {"name", what}, {"args", arguments}}.dump());
}

void TraceEvents::name_row(int row, const std::string& name) {
  for (const auto& [what, arguments] : {std::pair("thread_name", ordered_json{{"name", name}}),
                                        std::pair("thread_sort_index", ordered_json{{"sort_index", row}})})
    lines_.push_back(
        ordered_json{{"ph", "M"}, {"pid", number_}, {"tid", row}, {"name", what}, {"args", arguments}}.dump());
}

void TraceEvents::add_span(int row, const TimelineSpan& span) {
  lines_.push_back(ordered_json{{"ph", "X"},
                                {"pid", number_},
                                {"tid", row},
                                {"ts", microseconds(span.begin - begin_)},
                                {"dur", microseconds(span.end - span.begin)},
                                {"name", span.name},
                                {"args", arguments_of(span)}}
                       .dump());
}

void TraceEvents::add(const TimelineRow& row) { row.is_communication ? add_communication(row) : add_computing(row); }

void TraceEvents::add(const std::string& name, const std::vector<TimelineSpan>& spans) {
  name_row(0, name);
  for (const TimelineSpan& span : spans) add_span(0, span);
}

void TraceEvents::add_computing(const TimelineRow& row) {
  int threads = 1;
  for (const TimelineSpan& span : row.spans) threads = std::max(threads, span.thread + 1);
  for (int thread = 0; thread < threads; ++thread)
    name_row(thread, thread == 0 ? name_of("computing", row) : fmt::format("computing, thread {}", thread + 1));
  for (const TimelineSpan& span : row.spans) {
    add_span(span.thread, span);
    if (span.held_bytes == 0) continue;
    lines_.push_back(ordered_json{{"ph", "C"},
                                  {"pid", number_},
                                  {"ts", microseconds(span.end - begin_)},
                                  {"name", "memory"},
                                  {"args", {{"bytes", span.held_bytes}}}}
                         .dump());
  }
}

void TraceEvents::add_communication(const TimelineRow& row) {
  std::vector<Clock::time_point> ends;
  for (const TimelineSpan& span : row.spans) {
    const auto free = std::ranges::find_if(ends, [&](Clock::time_point end) { return end <= span.begin; });
    const auto place = static_cast<int>(free - ends.begin());
    if (free == ends.end()) {
      ends.push_back(span.end);
      name_row(kFirstExchangeRow + place,
               place == 0 ? name_of("communication", row) : fmt::format("communication {}", place + 1));
    } else {
      *free = span.end;
    }
    add_span(kFirstExchangeRow + place, span);
  }
}

std::string TraceEvents::text() const { return fmt::format("{}", fmt::join(lines_, ",\n")); }

std::string trace_json(const std::string& about, const std::vector<std::string>& events) {
  return fmt::format("{}: \"ms\",\n\"otherData\": {},\n\"traceEvents\": [\n{}\n]}}\n", kTraceBeginning, about,
                     fmt::join(events, ",\n"));
}

}  // namespace dptrain::parallel
