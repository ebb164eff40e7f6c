#include "parallel/step_recorder.h"

#include "device/device_range.h"

namespace dptrain::parallel {

const char* StepRecorder::range_name(How how) {
  switch (how) {
    case How::done: return "step: operators";
    case How::recorded: return "step: record";
    case How::replayed: break;
  }
  return "step: replay";
}

StepRecorder::How StepRecorder::run(Section section, const Signature& signature, const Give& give) {
  if (!device_.can_record()) return do_now(give);
  const auto found = sections_.find({section, signature});
  How how = found == sections_.end() ? How::done : !found->second ? How::recorded : How::replayed;
  if (agree_) how = agree_(how);
  const DeviceRange range(device_, range_name(how));
  if (how == How::done) {
    const PoolInUse pool(device_.allocator(), MemoryPool::recorded);
    // Another replica on the GPU may be about to record, and this work would be timed with its work. Ranks that agree
    // have a GPU each, and may wait for each other in `give`.
    const std::shared_ptr<void> recording_off = agree_ ? nullptr : device_.keep_recording_off();
    give(how);
    if (recording_off) device_.synchronize();
    sections_.try_emplace({section, signature});
    return how;
  }
  std::optional<RecordedSection>& recorded = found->second;
  if (how == How::recorded) {
    const PoolInUse pool(device_.allocator(), MemoryPool::recorded);
    RecordedSection::make_room(device_);
    // No rank frees memory while others record on the same GPU.
    if (agree_) agree_(how);
    recorded.emplace(device_, device_.allocator().in_use(), [&] { give(how); });
    // Making the recording takes memory, for which a GPU may wait for the others. No rank computes before all are done.
    if (agree_) agree_(how);
  }
  recorded->run();
  return how;
}

StepRecorder::How StepRecorder::do_now(const Give& give) {
  if (agree_) agree_(How::done);
  give(How::done);
  return How::done;
}

}  // namespace dptrain::parallel
