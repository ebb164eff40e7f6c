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

/// A point in the work given to a device, set again and again.
class DeviceMark {
 public:
  virtual ~DeviceMark() = default;
  /// After all work given so far.
  virtual void set() = 0;
  /// Blocks until the work before the point is done; at once where it was never set.
  virtual void wait() = 0;
};

/// Work that was recorded instead of being done, to be given to the device as a whole, again and again.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void run() = 0;
};

struct DeviceOptions {
  int rank = 0;
  int threads = 1;                 ///< CPU threads that compute for it
  int64_t memory_limit_bytes = 0;  ///< 0: none
  /// Of GPUs: only algorithms that end in the same bits on every run.
  bool deterministic = false;
  /// Of GPUs: products of f32 may round their inputs to TF32 (10 bits of mantissa).
  bool tf32 = false;
  /// Of GPUs: work may be recorded, see Device::can_record.
  bool records = true;
  /// It stands for such a device, which needn't be there, and computes nothing: see meta_device.h.
  bool counts_only = false;
  /// Its operators are logged with the time that each takes; on a GPU it is waited for at the end of each, and work
  /// can't be recorded.
  bool times_operators = false;
};

/// One entry of a device list: the place where a replica computes and keeps its memory. A device that stands twice in
/// the list is two of these. One thread computes on a device, its rank thread; allocation is safe from every thread.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceId& id() const { return id_; }
  DeviceKind kind() const { return id_.kind; }
  /// Position in the device list.
  int rank() const { return rank_; }
  /// "cpu:0", and "cpu:0 (rank 2)" in messages that tell replicas apart.
  std::string name() const { return id_.name(); }
  std::string name_with_rank() const;
  /// CPU threads that compute for this device.
  int threads() const { return threads_; }

  CachingAllocator& allocator() { return *allocator_; }
  const CachingAllocator& allocator() const { return *allocator_; }

  /// Where operators are logged: instead of being done on a device that computes nothing (meta_device.h), with the time
  /// that they take on one that was opened to log them; else null.
  OperatorLog* operator_log() const { return operator_log_.get(); }
  bool computes() const { return computes_; }

  /// A timeline of what it is given to compute, and one of what it exchanges by itself; null where that is the host's.
  virtual std::unique_ptr<Timeline> make_timeline();
  virtual std::unique_ptr<Timeline> make_communication_timeline();
  /// Where it shows that; null: nowhere. They outlive the work that it is given.
  void show_on(Timeline* computing, Timeline* communication);
  Timeline* timeline() const { return timeline_; }
  Timeline* communication_timeline() const { return communication_timeline_; }

  /// Bytes that can still be allocated, as far as can be told.
  virtual int64_t free_bytes() const = 0;

  /// Called once by the rank thread before it computes, to take its share of the machine.
  virtual void enter_thread() {}
  // Work that is given to a device runs in order, and may go on after the call has returned; what is said here of
  // memory is true for the next operation of this device.

  virtual void fill_zero(void* memory, int64_t bytes) = 0;
  /// Copies between two places of this device.
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  /// Copies from host memory, which may be changed as soon as the call returns. Not while work is recorded.
  virtual void upload(void* to, const void* host, int64_t bytes) = 0;
  /// Copies to host memory; blocks until it is there.
  virtual void download(void* host, const void* from, int64_t bytes) = 0;
  /// Blocks until all work given to the device is done.
  virtual void synchronize() = 0;

  /// A named range of the rank thread's time, for profilers.
  virtual void begin_range(const char*) {}
  virtual void end_range() {}

  virtual std::unique_ptr<HostMemory> host_memory(int64_t bytes) = 0;
  /// Copies from its host memory, which must be left alone until the work is done.
  virtual void copy_from_host(void* to, const HostMemory& from, int64_t bytes) = 0;
  virtual std::unique_ptr<DeviceMark> make_mark() = 0;
  /// Whether `record` works on this kind of device.
  virtual bool can_record() const { return false; }
  /// Records what `give` would give to the device. All memory that it allocates comes from the pool of recorded work.
  virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& give);

  /// While what it returns lives no other replica on the same GPU begins to record. For work that may wait for all that
  /// the GPU was given, which spoils a recording on it: loading kernels, choosing algorithms, taking memory of the
  /// host. Waits for those that record. Null where there are none, or they take too long.
  virtual std::shared_ptr<void> keep_recording_off() { return nullptr; }

  /// State that a higher floor keeps with the device (caches of primitives), made at first use by the rank thread.
  /// T is made from `Device&`.
  template <class T>
  T& attached() {
    auto& slot = attached_[std::type_index(typeid(T))];
    if (!slot) slot = std::shared_ptr<void>(std::make_shared<T>(*this));
    return *static_cast<T*>(slot.get());
  }

 protected:
  /// Ends what is attached, for devices whose own members it uses.
  void forget_attached() { attached_.clear(); }
  Device(const DeviceId& id, const DeviceOptions& options, std::unique_ptr<MemorySource> source);
  /// So many of another's threads, with its memory.
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

/// Opens a device that `require_devices` has found on this machine. Throws 71 where this version can't compute on it.
std::unique_ptr<Device> open_device(const DeviceId& id, const DeviceOptions& options = {});

}  // namespace dptrain
