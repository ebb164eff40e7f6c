#include "parallel/step_recorder.h"

namespace dptrain::parallel {
namespace {

/// Memory comes from the pool of recorded work as long as it lives.
class InRecordedPool {
 public:
  explicit InRecordedPool(CachingAllocator& allocator) : allocator_(allocator) { allocator_.use(MemoryPool::recorded); }
  ~InRecordedPool() { allocator_.use(MemoryPool::common); }
  InRecordedPool(const InRecordedPool&) = delete;
  InRecordedPool& operator=(const InRecordedPool&) = delete;

 private:
  CachingAllocator& allocator_;
};

}  // namespace

void StepRecorder::run(int part, const Signature& signature, const std::function<void()>& give) {
  if (!device_.can_record()) return give();
  Entry& entry = entries_[{part, signature}];
  CachingAllocator& allocator = device_.allocator();
  if (!entry.seen) {
    const InRecordedPool pool(allocator);
    give();
    entry.seen = true;
    return;
  }
  if (entry.work == nullptr) {
    const InRecordedPool pool(allocator);
    allocator.keep_recorded();
    entry.peak = allocator.peak_during([&] { entry.work = device_.record(give); });
    ++recorded_;
  }
  allocator.note_use(entry.peak);
  entry.work->run();
}

}  // namespace dptrain::parallel
