#include "device/device.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "device/operator_log.h"
#include "device/timeline.h"

namespace dptrain {

Device::Device(const DeviceId& id, const DeviceOptions& options, std::unique_ptr<MemorySource> source)
    : id_(id),
      rank_(options.rank),
      threads_(options.threads),
      computes_(!options.counts_only),
      operator_log_(options.counts_only || options.times_operators ? std::make_shared<OperatorLog>() : nullptr),
      source_(std::move(source)),
      allocator_(std::make_shared<CachingAllocator>(name(), *source_, options.memory_limit_bytes)) {}

Device::Device(const Device& whole, int threads)
    : id_(whole.id_),
      rank_(whole.rank_),
      threads_(threads),
      computes_(whole.computes_),
      operator_log_(whole.operator_log_),
      timeline_(whole.timeline_),
      source_(whole.source_),
      allocator_(whole.allocator_) {}

std::unique_ptr<Timeline> Device::make_timeline() { return std::make_unique<HostTimeline>(); }

std::unique_ptr<Timeline> Device::make_communication_timeline() { return nullptr; }

void Device::show_on(Timeline* computing, Timeline* communication) {
  timeline_ = computing;
  communication_timeline_ = communication;
}

std::unique_ptr<RecordedWork> Device::record(const std::function<void()>&) {
  report_bug(__FILE__, __LINE__, "can_record()", name() + " can't record work");
}

std::string Device::name_with_rank() const { return fmt::format("{} (rank {})", name(), rank_); }

}  // namespace dptrain
