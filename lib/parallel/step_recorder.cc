#include "parallel/step_recorder.h"

namespace dptrain::parallel {
namespace {

/// A range in a profiler's timeline, as long as it lives.
class InRange {
 public:
  InRange(Device& device, const char* name) : device_(device) { device_.begin_range(name); }
  ~InRange() { device_.end_range(); }
  InRange(const InRange&) = delete;
  InRange& operator=(const InRange&) = delete;

 private:
  Device& device_;
};

}  // namespace

StepRecorder::How StepRecorder::run(int part, const Signature& signature, const Give& give) {
  if (!device_.can_record()) return do_now(give);
  const auto found = entries_.find({part, signature});
  How how = found == entries_.end() ? How::done : found->second.work == nullptr ? How::recorded : How::replayed;
  if (agree_) how = agree_(how);
  constexpr const char* kNames[] = {"step: operators", "step: record", "step: replay"};
  const InRange range(device_, kNames[static_cast<size_t>(how)]);
  CachingAllocator& allocator = device_.allocator();
  if (how == How::done) {
    const PoolInUse pool(allocator, MemoryPool::recorded);
    give(how);
    entries_.try_emplace({part, signature});
    return how;
  }
  Entry& entry = found->second;
  if (how == How::recorded) {
    const PoolInUse pool(allocator, MemoryPool::recorded);
    if (!allocator.keeps_recorded()) {
      allocator.keep_recorded();
      // What choosing among algorithms took in the first step isn't needed again.
      device_.synchronize();
      allocator.release_cached();
    }
    // Nobody gives memory back while others record on the same GPU.
    if (agree_) agree_(how);
    for (Timeline* timeline : timelines()) timeline->record();
    entry.peak = allocator.peak_during([&] { entry.work = device_.record([&] { give(how); }); });
    for (Timeline* timeline : timelines()) entry.shown.push_back(timeline->take_recording());
    ++recorded_;
    // Making it takes memory, for which a GPU may wait for the others: none of them computes before all are through.
    if (agree_) agree_(how);
  }
  allocator.note_use(entry.peak);
  entry.work->run();
  for (size_t i = 0; i < entry.shown.size(); ++i) timelines()[i]->repeat(entry.shown[i]);
  return how;
}

std::vector<Timeline*> StepRecorder::timelines() const {
  std::vector<Timeline*> timelines = {device_.timeline(), device_.communication_timeline()};
  std::erase(timelines, nullptr);
  return timelines;
}

StepRecorder::How StepRecorder::do_now(const Give& give) {
  if (agree_) agree_(How::done);
  give(How::done);
  return How::done;
}

}  // namespace dptrain::parallel
