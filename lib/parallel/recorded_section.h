#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/device.h"
#include "device/timeline.h"

namespace dptrain::parallel {

/// Work that a device has recorded, the memory that it takes, and its timeline spans. Used by the device's rank thread.
class RecordedSection {
 public:
  /// Records the work that `give` gives to the device. `idle`: bytes in use while none of the recorded work runs.
  RecordedSection(Device& device, const MemoryCounts& idle, const std::function<void()>& give);
  /// Gives the recorded work to the device.
  void run();

  /// Prepares the device for its first recorded section. Keeps the pool of recorded work from now on, and frees the
  /// memory that choosing among algorithms took.
  static void make_room(Device& device);

 private:
  /// The timelines that the device is shown on.
  std::vector<Timeline*> timelines() const;

  Device& device_;
  std::unique_ptr<RecordedWork> work_;
  MemoryCounts peak_;                       ///< bytes that the recorded work uses in addition to `idle`
  std::vector<Timeline::Recording> shown_;  ///< the recorded spans, by timeline of the device
};

}  // namespace dptrain::parallel
