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

StepRecorder::How StepRecorder::run(int part, const Signature& signature, const Give& give) {
  if (!device_.can_record()) return do_now(give);
  const auto found = parts_.find({part, signature});
  How how = found == parts_.end() ? How::done : !found->second ? How::recorded : How::replayed;
  if (agree_) how = agree_(how);
  const DeviceRange range(device_, range_name(how));
  if (how == How::done) {
    const PoolInUse pool(device_.allocator(), MemoryPool::recorded);
    give(how);
    parts_.try_emplace({part, signature});
    return how;
  }
  std::optional<RecordedPart>& recorded = found->second;
  if (how == How::recorded) {
    const PoolInUse pool(device_.allocator(), MemoryPool::recorded);
    RecordedPart::make_room(device_);
    // Nobody gives memory back while others record on the same GPU.
    if (agree_) agree_(how);
    recorded.emplace(device_, device_.allocator().in_use(), [&] { give(how); });
    // Making it takes memory, for which a GPU may wait for the others: none of them computes before all are through.
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
