#include "device/cuda_device.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "base/error.h"
#include "device/cuda_check.h"
#include "device/cuda_graph.h"
#include "device/cuda_probe.h"
#include "device/cuda_timeline.h"
#include "device/open_cuda_device.h"

namespace dptrain {
namespace {

/// Memory of one GPU from cudaMalloc, aligned to 256 bytes. A failure returns null: the allocator then frees what it
/// caches and tries again before it gives up.
class CudaMemory final : public MemorySource {
 public:
  explicit CudaMemory(int index) : index_(index) {}

  void* take(int64_t bytes) override {
    cuda_check(cudaSetDevice(index_), "cudaSetDevice");
    const OutsideCapture outside;
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, static_cast<size_t>(bytes));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // so that the next call doesn't report it
      return nullptr;
    }
    cuda_check(status, "cudaMalloc");
    return memory;
  }

  /// cudaMalloc's alignment, which libraries may rely on.
  int64_t alignment() const override { return 256; }
  /// Large enough that medium blocks share segments, and no larger, because a GPU's memory is taken when it is
  /// requested.
  int64_t segment_bytes(int64_t wanted) const override {
    constexpr int64_t kMiB = int64_t{1} << 20;
    if (wanted <= kMiB) return 2 * kMiB;
    if (wanted <= 10 * kMiB) return 20 * kMiB;
    return (wanted + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
  }
  void give_back(void* memory, int64_t) noexcept override {
    const OutsideCapture outside;
    cudaFree(memory);
  }

 private:
  int index_;
};

class StreamMark final : public DeviceMark {
 public:
  explicit StreamMark(CudaDevice& device) : device_(device) {}
  void set() override { event_.record(device_.stream()); }
  void wait() override { device_.wait_for(event_); }

 private:
  CudaDevice& device_;
  CudaEvent event_{CudaEvent::WaitedFor::by_host};
};

/// The lock of a GPU, shared by all captures of this process that are under way on it. Beyond 64 GPUs, some share a
/// lock.
std::shared_timed_mutex& captures_on(int gpu) {
  static std::array<std::shared_timed_mutex, 64> locks;
  return locks[static_cast<size_t>(gpu) % locks.size()];
}

/// The GPU on which the calling thread is capturing; -1: none.
thread_local int captured_here = -1;

class Capturing {
 public:
  explicit Capturing(int gpu) : lock_(captures_on(gpu)) { captured_here = gpu; }
  ~Capturing() { captured_here = -1; }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

 private:
  std::shared_lock<std::shared_timed_mutex> lock_;
};

/// The GPU on which the calling thread blocks captures; -1: none.
thread_local int kept_off_here = -1;

/// While it lives, nobody begins a capture on the GPU. The constructor waits for captures of other replicas there,
/// which wait for nobody meanwhile. A thread that has one may make another.
class WithoutCaptures {
 public:
  explicit WithoutCaptures(int gpu) : gpu_(gpu) {
    if (kept_off_here == gpu || captured_here == gpu) return;
    lock_ = std::unique_lock(captures_on(gpu), kLongest);
    if (lock_.owns_lock()) kept_off_here = gpu;
  }
  ~WithoutCaptures() {
    if (lock_.owns_lock()) kept_off_here = -1;
  }
  WithoutCaptures(const WithoutCaptures&) = delete;
  WithoutCaptures& operator=(const WithoutCaptures&) = delete;

  /// False if the calling thread is capturing, or if others took too long.
  bool holds() const { return kept_off_here == gpu_; }

 private:
  static constexpr std::chrono::seconds kLongest{5};

  int gpu_;
  std::unique_lock<std::shared_timed_mutex> lock_;
};

/// Makes the GPU current before members are made on it.
std::unique_ptr<MemorySource> memory_of(int index) {
  cuda_check(cudaSetDevice(index), "cudaSetDevice");
  return std::make_unique<CudaMemory>(index);
}

}  // namespace

CudaDevice::CudaDevice(DeviceId id, const DeviceOptions& options)
    : Device(id, options, memory_of(id.index)),
      deterministic_(options.deterministic),
      tf32_(options.tf32),
      records_(options.records) {
  cuda_check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, id.index),
             "cudaDeviceGetAttribute");
  allocator().settle_before_release([this] { return settle(); });
}

CudaDevice::~CudaDevice() {
  // Work in flight may still read freed memory, and library handles still use the streams.
  cudaSetDevice(id().index);
  cudaStreamSynchronize(compute_.get());
  cudaStreamSynchronize(communication_.get());
  forget_attached();
  allocator().settle_before_release({});
}

std::shared_ptr<void> CudaDevice::keep_recording_off() {
  auto kept_off = std::make_shared<WithoutCaptures>(id().index);
  return kept_off->holds() ? kept_off : nullptr;
}

std::shared_ptr<void> CudaDevice::settle() noexcept {
  // cudaFree may wait for all of a GPU's work, which spoils captures on any of its streams.
  std::shared_ptr<void> settled = keep_recording_off();
  const bool is_over = settled != nullptr && cudaStreamSynchronize(compute_.get()) == cudaSuccess &&
                       cudaStreamSynchronize(communication_.get()) == cudaSuccess;
  return is_over ? settled : nullptr;
}

int64_t CudaDevice::free_bytes() const {
  size_t free = 0, total = 0;
  cuda_check(cudaSetDevice(id().index), "cudaSetDevice");
  cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<int64_t>(free);
}

void CudaDevice::enter_thread() { cuda_check(cudaSetDevice(id().index), "cudaSetDevice"); }

void CudaDevice::fill_zero(void* memory, int64_t bytes) {
  if (bytes == 0) return;  // a graph can't have a node without bytes
  cuda_check(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), stream()), "cudaMemsetAsync");
}

void CudaDevice::copy(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  cuda_check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream()), "cudaMemcpyAsync");
}

void CudaDevice::upload(void* to, const void* host, int64_t bytes) {
  if (bytes == 0) return;  // an empty vector on the host has no address
  if (bytes <= UploadRing::kSlotBytes) return uploads_.upload(*this, to, host, bytes);
  // The runtime returns from a copy of pageable memory once the bytes are staged, and waits by itself for the stream's
  // earlier work. From pinned memory the bytes are only free after our own wait.
  synchronize();
  cuda_check(cudaMemcpyAsync(to, host, static_cast<size_t>(bytes), cudaMemcpyDefault, stream()), "cudaMemcpyAsync");
  synchronize();
}

void CudaDevice::download(void* host, const void* from, int64_t bytes) {
  synchronize();  // the runtime would wait by itself, but nobody could observe that wait
  if (bytes == 0) return;
  cuda_check(cudaMemcpyAsync(host, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream()), "cudaMemcpyAsync");
  synchronize();
}

void CudaDevice::synchronize() {
  wait([this] { cuda_check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); });
}

void CudaDevice::wait_for(const CudaEvent& event) {
  wait([&event] { event.synchronize(); });
}

void CudaDevice::surround_waits(std::weak_ptr<const AroundWaits> around) {
  std::erase_if(around_waits_, [](const auto& earlier) { return earlier.expired(); });
  around_waits_.push_back(std::move(around));
}

void CudaDevice::wait(const std::function<void()>& wait) {
  std::function<void()> surrounded = wait;
  for (const auto& weak : around_waits_)
    if (const auto around = weak.lock()) surrounded = [around, inner = std::move(surrounded)] { (*around)(inner); };
  surrounded();
}

bool CudaDevice::is_recording() const { return captured_here == id().index; }

void CudaDevice::begin_range(const char* name) { nvtxRangePushA(name); }

void CudaDevice::end_range() { nvtxRangePop(); }

std::unique_ptr<HostMemory> CudaDevice::host_memory(int64_t bytes) {
  enter_thread();
  return std::make_unique<PinnedMemory>(bytes);
}

void CudaDevice::copy_from_host(void* to, const HostMemory& from, int64_t bytes) {
  cuda_check(cudaMemcpyAsync(to, from.data(), static_cast<size_t>(bytes), cudaMemcpyDefault, stream()),
             "cudaMemcpyAsync");
}

std::unique_ptr<DeviceMark> CudaDevice::make_mark() {
  enter_thread();
  return std::make_unique<StreamMark>(*this);
}

std::unique_ptr<Timeline> CudaDevice::make_timeline() {
  enter_thread();
  return std::make_unique<CudaTimeline>(*this, stream());
}

std::unique_ptr<Timeline> CudaDevice::make_communication_timeline() {
  enter_thread();
  return std::make_unique<CudaTimeline>(*this, communication_stream());
}

std::unique_ptr<RecordedWork> CudaDevice::record(const std::function<void()>& give) {
  const Capturing capturing(id().index);
  return capture_cuda_graph(stream(), give);
}

std::unique_ptr<Device> open_cuda_device(const DeviceId& id, const DeviceOptions& options) {
  const auto gpus = cuda_devices();
  if (std::ranges::none_of(gpus, [&](const CudaDeviceInfo& gpu) { return gpu.index == id.index; }))
    throw Error(
        ExitCode::device,
        Mistake{.where = id.name(),
                .expected = gpus.empty() ? cuda_absence() : fmt::format("this machine has {} GPUs", gpus.size()),
                .got = "",
                .advice = "use --devices cpu:0-1"});
  return std::make_unique<CudaDevice>(id, options);
}

}  // namespace dptrain
