#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <typeindex>
#include <unordered_map>

#include "device/allocator.h"
#include "device/device_id.h"

namespace dptrain {

class OperatorLog;
class Timeline;

/// Host memory that a device reads and writes while the host goes on.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  void* data() const { return data_; }

 protected:
  explicit HostMemory(void* data) : data_(data) {}
  void* data_;
};

/// A point in the work given to a device. It can be set again and again.
class DeviceMark {
 public:
  virtual ~DeviceMark() = default;
  /// Sets the point after all work given so far.
  virtual void set() = 0;
  /// Blocks until the work before the point is done. Returns at once if the point was never set.
  virtual void wait() = 0;
};

/// Work that was recorded instead of run. It is given to the device as a whole, as often as needed.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void run() = 0;
};

struct DeviceOptions {
  int rank = 0;
  int threads = 1;                 ///< CPU threads that compute for the device
  int64_t memory_limit_bytes = 0;  ///< 0: no limit
  /// GPUs only: use only algorithms that give bit-identical results on every run.
  bool deterministic = false;
  /// GPUs only: products of f32 may round their inputs to TF32 (10 bits of mantissa).
  bool tf32 = false;
  /// GPUs only: work may be recorded; see Device::can_record.
  bool records = true;
  /// The device stands for a real one, which may be missing, and computes nothing: see meta_device.h.
  bool counts_only = false;
  /// Logs each operator with the time that it takes. A GPU is waited for after each operator, and its work can't be
  /// recorded.
  bool times_operators = false;
};

/// One entry of a device list: the place where a replica computes and keeps its memory. A device that the list names
/// twice is two Device objects. One thread, the rank thread, computes on a device; any thread may allocate memory.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceId& id() const { return id_; }
  DeviceKind kind() const { return id_.kind; }
  /// Position in the device list.
  int rank() const { return rank_; }
  /// "cpu:0". Messages that must tell replicas apart use "cpu:0 (rank 2)".
  std::string name() const { return id_.name(); }
  std::string name_with_rank() const;
  /// CPU threads that compute for this device.
  int threads() const { return threads_; }

  CachingAllocator& allocator() { return *allocator_; }
  const CachingAllocator& allocator() const { return *allocator_; }

  /// The log of operators, or null. A device that computes nothing (meta_device.h) logs operators instead of running
  /// them. A device opened with `times_operators` logs the time that each operator takes.
  OperatorLog* operator_log() const { return operator_log_.get(); }
  bool computes() const { return computes_; }

  /// Make a timeline of what the device computes, and one of what it exchanges by itself. Null if the host's timeline
  /// shows that already.
  virtual std::unique_ptr<Timeline> make_timeline();
  virtual std::unique_ptr<Timeline> make_communication_timeline();
  /// Sets the timelines on which the device shows its work; null: none. They must outlive the work given to the device.
  void show_on(Timeline* computing, Timeline* communication);
  Timeline* timeline() const { return timeline_; }
  Timeline* communication_timeline() const { return communication_timeline_; }

  /// Bytes that can still be allocated, as far as known.
  virtual int64_t free_bytes() const = 0;

  /// Takes the rank thread's share of the machine. The rank thread calls this once before it computes.
  virtual void enter_thread() {}
  // Work given to a device runs in order and may go on after the call has returned. The comments below say what holds
  // for the device's next operation.

  virtual void fill_zero(void* memory, int64_t bytes) = 0;
  /// Copies between two places in this device's memory.
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  /// Copies from host memory, which may be changed as soon as the call returns. Must not be called while recording.
  virtual void upload(void* to, const void* host, int64_t bytes) = 0;
  /// Copies to host memory. Blocks until the copy is done.
  virtual void download(void* host, const void* from, int64_t bytes) = 0;
  /// Blocks until all work given to the device is done.
  virtual void synchronize() = 0;

  /// A named range of the rank thread's time, for profilers.
  virtual void begin_range(const char*) {}
  virtual void end_range() {}

  virtual std::unique_ptr<HostMemory> host_memory(int64_t bytes) = 0;
  /// Copies from the device's host memory, which must not be changed until the copy is done.
  virtual void copy_from_host(void* to, const HostMemory& from, int64_t bytes) = 0;
  virtual std::unique_ptr<DeviceMark> make_mark() = 0;
  /// Whether `record` works on this kind of device.
  virtual bool can_record() const { return false; }
  /// Records the work that `give` would give to the device. All memory that `give` allocates comes from the pool of
  /// recorded work.
  virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& give);

  /// Keeps other replicas on the same GPU from starting to record while the returned object lives. Use it for work that
  /// may wait for everything the GPU was given, since such a wait spoils a recording: loading kernels, choosing
  /// algorithms, allocating host memory. Blocks until recordings under way have ended. Null if the device isn't a
  /// GPU, if the calling thread is recording, or if other recordings take longer than 5 s. A GPU whose own work isn't
  /// recorded returns it, too, since other replicas on the GPU may record.
  virtual std::shared_ptr<void> keep_recording_off() { return nullptr; }

  /// State that a higher layer keeps with the device, such as a cache of primitives. The rank thread makes it at first
  /// use, as T(Device&).
  template <class T>
  T& attached() {
    auto& slot = attached_[std::type_index(typeid(T))];
    if (!slot) slot = std::shared_ptr<void>(std::make_shared<T>(*this));
    return *static_cast<T*>(slot.get());
  }

 protected:
  /// Destroys the attached state. For subclasses whose own members it uses.
  void forget_attached() { attached_.clear(); }
  Device(const DeviceId& id, const DeviceOptions& options, std::unique_ptr<MemorySource> source);
  /// Uses `threads` of another device's threads, and shares its memory.
  Device(const Device& whole, int threads);

 private:
  DeviceId id_;
  int rank_;
  int threads_;
  bool computes_;
  std::shared_ptr<OperatorLog> operator_log_;
  Timeline* timeline_ = nullptr;
  Timeline* communication_timeline_ = nullptr;
  std::shared_ptr<MemorySource> source_;
  std::shared_ptr<CachingAllocator> allocator_;
  std::unordered_map<std::type_index, std::shared_ptr<void>> attached_;
};

/// Opens a device that `require_devices` has found on this machine. Throws an error with exit code 71 if this build
/// can't compute on it.
std::unique_ptr<Device> open_device(const DeviceId& id, const DeviceOptions& options = {});

}  // namespace dptrain
