#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/timeline.h"

namespace dptrain::parallel {

/// Numbers of the steps to be shown, first to last.
struct ShownSteps {
  int64_t first = 0;
  int64_t last = -1;

  bool contains(int64_t step) const { return first <= step && step <= last; }
};

/// The name of a step in a timeline.
std::string step_name(int64_t step);

/// A row of a timeline: what a rank did.
struct TimelineRow {
  bool is_communication = false;    ///< a row of exchanges, whose spans may overlap; else of computing
  std::vector<TimelineSpan> spans;  ///< in the order in which they began
  int64_t left_out = 0;             ///< number of spans that there was no room for
};

/// Records what a rank does in some of its steps: the operators by part of the step, and the exchanges with others.
/// Used by the rank's thread, except `take`.
class RankTimelines {
 public:
  /// Shows the device's work. Must be destroyed before the device.
  explicit RankTimelines(Device& device);
  ~RankTimelines();
  RankTimelines(const RankTimelines&) = delete;
  RankTimelines& operator=(const RankTimelines&) = delete;

  /// The timeline of exchanges through this process's memory.
  Timeline& exchanges() { return exchanges_; }
  /// Does a step. After a step that is shown, waits for the device. After the last shown step, the device isn't shown
  /// any more; work that was recorded together with timeline marks is then recorded again.
  void do_step(int64_t step, const ShownSteps& shown, const std::function<void()>& work);
  /// Returns what has been shown since the last call. Call it between steps, from any thread.
  std::vector<TimelineRow> take();

 private:
  void keep(bool keep);

  Device& device_;
  std::unique_ptr<Timeline> computing_;
  std::unique_ptr<Timeline> device_exchanges_;  ///< null if the device exchanges nothing by itself
  HostTimeline exchanges_;
};

}  // namespace dptrain::parallel
