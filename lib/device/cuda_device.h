#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "device/cuda_handles.h"
#include "device/cuda_host_memory.h"
#include "device/device.h"

namespace dptrain {

/// One entry of the device list on a GPU. A GPU that is listed twice is two CudaDevice objects, each with its own
/// streams and allocator.
///
/// All operators run on one stream. So when a freed block of memory is taken again, it is written only after the
/// earlier reads. Events order work on another stream (communication) with it.
class CudaDevice final : public Device {
 public:
  CudaDevice(DeviceId id, const DeviceOptions& options);
  ~CudaDevice() override;

  /// The CudaDevice behind `device`, which must be of kind `cuda`.
  static CudaDevice& of(Device& device) { return static_cast<CudaDevice&>(device); }

  cudaStream_t stream() const { return compute_.get(); }
  cudaStream_t communication_stream() const { return communication_.get(); }
  int multiprocessors() const { return multiprocessors_; }
  bool deterministic() const { return deterministic_; }
  bool tf32() const { return tf32_; }

  int64_t free_bytes() const override;
  void enter_thread() override;
  void fill_zero(void* memory, int64_t bytes) override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void upload(void* to, const void* host, int64_t bytes) override;
  void download(void* host, const void* from, int64_t bytes) override;
  void synchronize() override;
  /// NVTX ranges, as Nsight Systems shows them.
  void begin_range(const char* name) override;
  void end_range() override;
  std::unique_ptr<HostMemory> host_memory(int64_t bytes) override;
  void copy_from_host(void* to, const HostMemory& from, int64_t bytes) override;
  std::unique_ptr<DeviceMark> make_mark() override;
  std::unique_ptr<Timeline> make_timeline() override;
  std::unique_ptr<Timeline> make_communication_timeline() override;
  bool can_record() const override { return records_ && operator_log() == nullptr; }
  std::shared_ptr<void> keep_recording_off() override;
  std::unique_ptr<RecordedWork> record(const std::function<void()>& give) override;
  /// Whether the calling thread is recording work of this GPU.
  bool is_recording() const;

  /// Wraps the host's waits for this device: it must call `wait`. Used to observe what a process waits for.
  using AroundWaits = std::function<void(const std::function<void()>& wait)>;
  /// Wraps the waits in `around`, too, until `around` is destroyed.
  void surround_waits(std::weak_ptr<const AroundWaits> around);
  /// Blocks until the GPU reaches the event, recorded on a stream of this device.
  void wait_for(const CudaEvent& event);

 private:
  /// Blocks until no work given to the device can still read freed memory. Returns null if that can't be waited for, or
  /// if the memory can't be released afterwards.
  std::shared_ptr<void> settle() noexcept;
  void wait(const std::function<void()>& wait);

  CudaStream compute_{CudaStream::Priority::normal};
  /// Communication that other ranks wait for goes before the computation that hides it.
  CudaStream communication_{CudaStream::Priority::highest};
  UploadRing uploads_;
  int multiprocessors_ = 0;
  bool deterministic_;
  bool tf32_;
  bool records_;
  std::vector<std::weak_ptr<const AroundWaits>> around_waits_;
};

}  // namespace dptrain
