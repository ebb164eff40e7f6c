#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/timeline.h"

namespace dptrain::parallel {

/// Steps to be shown, by their numbers: first to last.
struct ShownSteps {
  int64_t first = 0;
  int64_t last = -1;

  bool contains(int64_t step) const { return first <= step && step <= last; }
};

/// How a step is called there.
std::string step_name(int64_t step);

/// What a rank was at: a row of a picture.
struct TimelineRow {
  bool is_communication = false;    ///< whose spans may overlap; else computing
  std::vector<TimelineSpan> spans;  ///< in the order in which they began
  int64_t left_out = 0;             ///< that there was no room for
};

/// What shows what a rank is at in some of its steps: its operators, in what part of the step, and what it exchanges
/// with others beside that. Used by the rank's thread, but where something else is said.
class RankTimelines {
 public:
  /// Shows the device; ends before it.
  explicit RankTimelines(Device& device);
  ~RankTimelines();
  RankTimelines(const RankTimelines&) = delete;
  RankTimelines& operator=(const RankTimelines&) = delete;

  /// Where exchanges are shown that go through this process's memory.
  Timeline& exchanges() { return exchanges_; }
  /// Does a step; of one that is shown it waits for the device at its end. After the last of them the device is shown
  /// no more: what it has recorded with marks in it is recorded anew.
  void do_step(int64_t step, const ShownSteps& shown, const std::function<void()>& work);
  /// What has been shown since the last call, between steps; of any thread.
  std::vector<TimelineRow> take();

 private:
  void keep(bool keep);

  Device& device_;
  std::unique_ptr<Timeline> computing_;
  std::unique_ptr<Timeline> device_exchanges_;  ///< null where the device exchanges nothing by itself
  HostTimeline exchanges_;
};

}  // namespace dptrain::parallel
