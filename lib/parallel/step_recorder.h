#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "device/device.h"
#include "parallel/recorded_part.h"

namespace dptrain::parallel {

/// Parts of a step whose work is the same each time but for values on the device. Where the device can record, a part
/// is done as it is the first time that its signature comes (which takes the memory, and lets libraries choose),
/// recorded the second time, and run as a whole from then on. Used by the device's rank thread.
class StepRecorder {
 public:
  explicit StepRecorder(Device& device) : device_(device) {}

  /// All that decides what work `part` gives to the device: sizes of batches, and where its values lie.
  using Signature = std::vector<int64_t>;
  enum class How { done, recorded, replayed };
  /// What profilers call such a step.
  static const char* range_name(How how);
  /// For ranks that record together and don't know each other's sizes: told how far this one would go, it says how far
  /// all go, which is as far as the least of them. Asked before every part, and once more when one has been recorded.
  using Agree = std::function<How(How own)>;
  void agree_by(Agree agree) { agree_ = std::move(agree); }
  /// Gives the work to the device; told whether it is done there and then or recorded.
  using Give = std::function<void(How)>;
  How run(int part, const Signature& signature, const Give& give);
  /// Has it done there and then.
  How do_now(const Give& give);

 private:
  Device& device_;
  Agree agree_;
  std::map<std::pair<int, Signature>, std::optional<RecordedPart>> parts_;  ///< null: done once, not recorded yet
};

}  // namespace dptrain::parallel
