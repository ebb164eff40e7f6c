#include "parallel/recorded_section.h"

namespace dptrain::parallel {

RecordedSection::RecordedSection(Device& device, const MemoryCounts& idle, const std::function<void()>& give)
    : device_(device) {
  for (Timeline* timeline : timelines()) timeline->record();
  peak_ = device.allocator().peak_during([&] { work_ = device.record(give); }) - idle;
  for (Timeline* timeline : timelines()) shown_.push_back(timeline->take_recording());
}

void RecordedSection::run() {
  device_.allocator().note_use(device_.allocator().in_use() + peak_);
  work_->run();
  for (size_t i = 0; i < shown_.size(); ++i) timelines()[i]->repeat(shown_[i]);
}

void RecordedSection::make_room(Device& device) {
  CachingAllocator& allocator = device.allocator();
  if (allocator.keeps_recorded()) return;
  allocator.keep_recorded();
  device.synchronize();
  allocator.release_cached();
}

std::vector<Timeline*> RecordedSection::timelines() const {
  std::vector<Timeline*> timelines = {device_.timeline(), device_.communication_timeline()};
  std::erase(timelines, nullptr);
  return timelines;
}

}  // namespace dptrain::parallel
