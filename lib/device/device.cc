#include "device/device.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace dptrain {

Device::Device(DeviceId id, int rank, int threads, std::unique_ptr<MemorySource> source, int64_t memory_limit_bytes)
    : id_(id),
      rank_(rank),
      threads_(threads),
      source_(std::move(source)),
      allocator_(std::make_shared<CachingAllocator>(name(), *source_, memory_limit_bytes)) {}

Device::Device(const Device& whole, int threads)
    : id_(whole.id_),
      rank_(whole.rank_),
      threads_(threads),
      operator_log_(whole.operator_log_),
      source_(whole.source_),
      allocator_(whole.allocator_) {}

std::unique_ptr<RecordedWork> Device::record(const std::function<void()>&) {
  report_bug(__FILE__, __LINE__, "can_record()", name() + " can't record work");
}

std::string Device::name_with_rank() const { return fmt::format("{} (rank {})", name(), rank_); }

}  // namespace dptrain
