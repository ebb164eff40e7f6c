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

/// Records and replays sections of a step. A section's work is the same each time, except for values on the device. If
/// the device can record, a section of a new signature runs operator by operator at first, which takes the memory and
/// lets libraries choose algorithms. The second time it is recorded, and from then on it is replayed as a whole. Used
/// by the device's rank thread.
class StepRecorder {
 public:
  explicit StepRecorder(Device& device) : device_(device) {}

  /// A step is one section, or two sections with an unrecorded exchange between them.
  enum class Section {
    passes,  ///< forward and backward, and everything up to the exchange
    end,     ///< everything after the exchange
  };
  /// Everything that decides what work a section gives to the device: sizes of batches, and addresses of values.
  using Signature = std::vector<int64_t>;
  enum class How { done, recorded, replayed };
  /// The name of such a step in profilers.
  static const char* range_name(How how);
  /// For ranks that record together but don't know each other's sizes. It is told how far this rank would go, and
  /// returns how far all ranks go: as far as the least advanced one. It is called before every section, and twice more
  /// when the section is recorded.
  using Agree = std::function<How(How own)>;
  void agree_by(Agree agree) { agree_ = std::move(agree); }
  /// Gives the work to the device. It is told whether the work runs now or is recorded.
  using Give = std::function<void(How)>;
  How run(Section section, const Signature& signature, const Give& give);
  /// Runs the work now, without recording.
  How do_now(const Give& give);

 private:
  Device& device_;
  Agree agree_;
  /// No section: done, but not recorded yet.
  std::map<std::pair<Section, Signature>, std::optional<RecordedSection>> sections_;
};

}  // namespace dptrain::parallel
