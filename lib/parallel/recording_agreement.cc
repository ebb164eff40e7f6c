#include "parallel/recording_agreement.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "parallel/world_results.h"

namespace dptrain::parallel {

void RecordingAgreement::begin_step(std::optional<StepRecorder::Signature> sizes) {
  sizes_ = std::move(sizes);
  // A step of new sizes may need more room, which invalidates the recordings of other sizes.
  if (!sizes_ || seen_.insert(*sizes_).second) replayed_.clear();
}

RecordingAgreement::How RecordingAgreement::of_all(How own) {
  if (sizes_ && replayed_.contains(*sizes_)) {
    DPTRAIN_CHECK(own == How::replayed, "a step of sizes that all ranks have replayed is new to this one");
    return own;
  }
  const auto all = gather_values(over_host_, static_cast<double>(own));
  const auto least = static_cast<How>(static_cast<int>(std::ranges::min(all)));
  if (sizes_ && least == How::replayed) replayed_.insert(*sizes_);
  return least;
}

}  // namespace dptrain::parallel
