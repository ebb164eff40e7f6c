#include "train/training_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/host_name.h"

namespace dptrain::train {
namespace {

using nlohmann::ordered_json;

// Numbers of rows ("tid") of a rank, and of processes of the job among the ranks ("pid").
constexpr int kFirstExchangeRow = 1000;
constexpr int kFirstMainThread = 1'000'000;

/// When the training began by this process's clock: that of the main process where they share one.
Clock::time_point begin_of(const Experiment& experiment) {
  if (experiment.job == nullptr) return Clock::now();
  ProcessGroup& group = experiment.job->group;
  // All have come here when this returns.
  group.largest(0);
  const Clock::time_point own = Clock::now();
  const std::string host = host_name();
  const std::string main = group.from_main(fmt::format("{} {}", own.time_since_epoch().count(), host));
  const size_t space = main.find(' ');
  if (main.substr(space + 1) != host) return own;
  return Clock::time_point(Clock::duration(std::stoll(main.substr(0, space))));
}

/// The lines of one Chrome process: a rank, or a main thread.
class EventLines {
 public:
  EventLines(int number, Clock::time_point begin) : number_(number), begin_(begin) {}

  void name_process(const std::string& name, int place) {
    add({{"ph", "M"}, {"pid", number_}, {"name", "process_name"}, {"args", {{"name", name}}}});
    add({{"ph", "M"}, {"pid", number_}, {"name", "process_sort_index"}, {"args", {{"sort_index", place}}}});
  }
  void name_row(int row, const std::string& name) {
    add({{"ph", "M"}, {"pid", number_}, {"tid", row}, {"name", "thread_name"}, {"args", {{"name", name}}}});
    add({{"ph", "M"}, {"pid", number_}, {"tid", row}, {"name", "thread_sort_index"}, {"args", {{"sort_index", row}}}});
  }
  void add_span(int row, const TimelineSpan& span) {
    add({{"ph", "X"},
         {"pid", number_},
         {"tid", row},
         {"ts", microseconds(span.begin - begin_)},
         {"dur", microseconds(span.end - span.begin)},
         {"name", span.name},
         {"args", arguments_of(span)}});
  }
  void add_memory(Clock::time_point when, int64_t bytes) {
    add({{"ph", "C"},
         {"pid", number_},
         {"ts", microseconds(when - begin_)},
         {"name", "memory"},
         {"args", {{"bytes", bytes}}}});
  }
  std::string text() const { return fmt::format("{}", fmt::join(lines_, ",\n")); }

 private:
  /// To the nanosecond, which a double has in a training of a year.
  static double microseconds(Clock::duration duration) {
    return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count()) / 1000;
  }
  static ordered_json arguments_of(const TimelineSpan& span) {
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
  void add(const ordered_json& event) { lines_.push_back(event.dump()); }

  int number_;
  Clock::time_point begin_;
  std::vector<std::string> lines_;
};

/// "computing", or "computing (12 spans left out)".
std::string name_of(const char* name, const parallel::TimelineRow& row) {
  return row.left_out == 0 ? name : fmt::format("{} ({} spans left out)", name, row.left_out);
}

/// A row for each of a timeline's threads.
void add_computing(EventLines& lines, const parallel::TimelineRow& row) {
  int threads = 1;
  for (const TimelineSpan& span : row.spans) threads = std::max(threads, span.thread + 1);
  for (int thread = 0; thread < threads; ++thread)
    lines.name_row(thread, thread == 0 ? name_of("computing", row) : fmt::format("computing, thread {}", thread + 1));
  for (const TimelineSpan& span : row.spans) {
    lines.add_span(span.thread, span);
    if (span.held_bytes > 0) lines.add_memory(span.end, span.held_bytes);
  }
}

/// As many rows as exchanges are under way at once.
void add_communication(EventLines& lines, const parallel::TimelineRow& row) {
  std::vector<Clock::time_point> ends;
  for (const TimelineSpan& span : row.spans) {
    const auto free = std::ranges::find_if(ends, [&](Clock::time_point end) { return end <= span.begin; });
    const auto place = static_cast<int>(free - ends.begin());
    if (free == ends.end()) {
      ends.push_back(span.end);
      lines.name_row(kFirstExchangeRow + place,
                     place == 0 ? name_of("communication", row) : fmt::format("communication {}", place + 1));
    } else {
      *free = span.end;
    }
    lines.add_span(kFirstExchangeRow + place, span);
  }
}

}  // namespace

TrainingTrace::TrainingTrace(const Experiment& experiment, const parallel::ShownSteps& steps)
    : experiment_(experiment), steps_(steps), begin_(begin_of(experiment)) {}

std::string TrainingTrace::events(const std::vector<std::vector<parallel::TimelineRow>>& ranks, int first_rank) {
  std::vector<std::string> processes;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const int rank = first_rank + static_cast<int>(r);
    EventLines lines(rank, begin_);
    lines.name_process(experiment_.rank_name(rank), rank);
    for (const parallel::TimelineRow& row : ranks[r])
      row.is_communication ? add_communication(lines, row) : add_computing(lines, row);
    processes.push_back(lines.text());
  }
  const int process = experiment_.job != nullptr ? experiment_.job->group.process() : 0;
  EventLines lines(kFirstMainThread + process, begin_);
  lines.name_process(experiment_.job != nullptr ? fmt::format("process {}", process) : "process",
                     kFirstMainThread + process);
  lines.name_row(0, "main thread");
  main_thread_.settle();
  for (const TimelineSpan& span : main_thread_.take()) lines.add_span(0, span);
  processes.push_back(lines.text());
  return fmt::format("{}", fmt::join(processes, ",\n"));
}

std::string TrainingTrace::json(const std::vector<std::string>& events, int64_t step) const {
  const ordered_json about = {{"run", experiment_.name},
                              {"strategy", experiment_.strategy.name},
                              {"batch_size", experiment_.batch_size},
                              {"steps", fmt::format("{}-{}", steps_.first, std::min(step, steps_.last))}};
  return fmt::format("{{\"displayTimeUnit\": \"ms\",\n\"otherData\": {},\n\"traceEvents\": [\n{}\n]}}\n", about.dump(),
                     fmt::join(events, ",\n"));
}

}  // namespace dptrain::train
