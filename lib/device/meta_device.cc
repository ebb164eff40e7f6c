#include "device/meta_device.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/timeline.h"

namespace dptrain {
namespace {

/// Address space only. Pages that nobody touches take no memory. A few pages do, because code of operators outside
/// their loops reads or writes them.
class AddressSpace final : public MemorySource {
 public:
  explicit AddressSpace(DeviceKind kind) : alignment_(kind == DeviceKind::cpu ? 64 : 256) {}

  void* take(int64_t bytes) override {
    void* memory = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
  }
  void give_back(void* memory, int64_t bytes) noexcept override { ::munmap(memory, static_cast<size_t>(bytes)); }
  /// The real devices' alignment. Sizes count in multiples of it.
  int64_t alignment() const override { return alignment_; }
  int64_t segment_bytes(int64_t wanted) const override { return std::max(wanted, int64_t{1} << 30); }

 private:
  int64_t alignment_;
};

class Zeros final : public HostMemory {
 public:
  explicit Zeros(int64_t bytes) : HostMemory(nullptr), bytes_(static_cast<size_t>(bytes)) { data_ = bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
};

/// A mark that needs no wait: work is logged when the call returns.
class NoMark final : public DeviceMark {
 public:
  void set() override {}
  void wait() override {}
};

/// A unit large enough that a span with an operator in it isn't empty, and is drawn.
using LoggedOperators = std::chrono::milliseconds;

class LoggedTimeline final : public Timeline {
 public:
  explicit LoggedTimeline(OperatorLog& log) : log_(log) {}

 private:
  int64_t mark(bool) override { return static_cast<int64_t>(log_.size()); }
  std::vector<Clock::time_point> moments(const std::vector<int64_t>& marks) override {
    std::vector<Clock::time_point> moments;
    for (const int64_t mark : marks) moments.emplace_back(LoggedOperators(mark));
    return moments;
  }

  OperatorLog& log_;
};

/// Does nothing: the work was logged when it was recorded.
class LoggedWork final : public RecordedWork {
 public:
  void run() override {}
};

}  // namespace

MetaDevice::MetaDevice(const DeviceId& id, const DeviceOptions& options)
    : Device(id, options, std::make_unique<AddressSpace>(id.kind)), records_(options.records) {}

MetaDevice::~MetaDevice() { forget_attached(); }

std::unique_ptr<Timeline> MetaDevice::make_timeline() { return std::make_unique<LoggedTimeline>(*operator_log()); }

int64_t MetaDevice::logged_operators(Clock::time_point moment) {
  return std::chrono::duration_cast<LoggedOperators>(moment.time_since_epoch()).count();
}

// oneDNN's primitives are made for this many threads, and their workspace depends on it.
void MetaDevice::enter_thread() { omp_set_num_threads(threads()); }

void MetaDevice::fill_zero(void*, int64_t bytes) { operator_log()->add("fill_zero", bytes); }
void MetaDevice::copy(void*, const void*, int64_t bytes) { operator_log()->add("copy", 2 * bytes); }
void MetaDevice::upload(void*, const void*, int64_t bytes) { operator_log()->add("upload", bytes); }

void MetaDevice::download(void* host, const void*, int64_t bytes) {
  operator_log()->add("download", bytes);
  if (bytes > 0) std::memset(host, 0, static_cast<size_t>(bytes));
}

std::unique_ptr<HostMemory> MetaDevice::host_memory(int64_t bytes) { return std::make_unique<Zeros>(bytes); }

void MetaDevice::copy_from_host(void*, const HostMemory&, int64_t bytes) { operator_log()->add("upload", bytes); }

std::unique_ptr<DeviceMark> MetaDevice::make_mark() { return std::make_unique<NoMark>(); }

std::unique_ptr<RecordedWork> MetaDevice::record(const std::function<void()>& give) {
  give();
  return std::make_unique<LoggedWork>();
}

}  // namespace dptrain
