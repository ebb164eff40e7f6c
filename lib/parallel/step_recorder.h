#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "device/device.h"
#include "parallel/recorded_section.h"

namespace dptrain::parallel {

/// Sections of a step whose work is the same each time, except for values on the device. Where the device can record, a
/// section is done operator by operator the first time that its signature comes (which takes the memory, and lets
/// libraries choose), recorded the second time, and replayed as a whole from then on. Used by the device's rank thread.
class StepRecorder {
 public:
  explicit StepRecorder(Device& device) : device_(device) {}

  /// A step is one section, or two with an exchange between them that isn't recorded.
  enum class Section {
    passes,  ///< forward and backward, and all up to the exchange
    end,     ///< what follows on it
  };
  /// All that decides what work a section gives to the device: sizes of batches, and where its values lie.
  using Signature = std::vector<int64_t>;
  enum class How { done, recorded, replayed };
  /// What profilers call such a step.
  static const char* range_name(How how);
  /// For ranks that record together and don't know each other's sizes: told how far this one would go, it says how far
  /// all go, which is as far as the least of them. Asked before every section, and twice more when it is recorded.
  using Agree = std::function<How(How own)>;
  void agree_by(Agree agree) { agree_ = std::move(agree); }
  /// Gives the work to the device; told whether it is done there and then or recorded.
  using Give = std::function<void(How)>;
  How run(Section section, const Signature& signature, const Give& give);
  /// Has it done there and then.
  How do_now(const Give& give);

 private:
  Device& device_;
  Agree agree_;
  std::map<std::pair<Section, Signature>, std::optional<RecordedSection>> sections_;  ///< null: done, not yet recorded
};

}  // namespace dptrain::parallel
