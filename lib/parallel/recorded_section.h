#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/device.h"
#include "device/timeline.h"

namespace dptrain::parallel {

/// Work that a device has recorded, with the memory that it takes and what timelines show of it. Used by the device's
/// rank thread.
class RecordedSection {
 public:
  /// Records what `give` gives to the device. `idle`: bytes in use where nothing of what is recorded is under way.
  RecordedSection(Device& device, const MemoryCounts& idle, const std::function<void()>& give);
  /// Gives all of it to the device.
  void run();

  /// Before the first one of all: from now on the pool of recorded work is kept, and what choosing among algorithms
  /// took is given back.
  static void make_room(Device& device);

 private:
  /// Those that the device is shown on.
  std::vector<Timeline*> timelines() const;

  Device& device_;
  std::unique_ptr<RecordedWork> work_;
  MemoryCounts peak_;                       ///< bytes that it uses besides
  std::vector<Timeline::Recording> shown_;  ///< what its device's timelines show of it
};

}  // namespace dptrain::parallel
