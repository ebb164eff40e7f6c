#pragma once

#include <cuda_runtime_api.h>

#include <utility>

namespace dptrain {

/// A point in a stream's work. Move-only. Made on the current device.
class CudaEvent {
 public:
  enum class WaitedFor {
    between_streams,  ///< or queried: the GPU need not notify the host
    by_host,          ///< the host sleeps while it waits
  };
  CudaEvent() : CudaEvent(WaitedFor::between_streams) {}
  explicit CudaEvent(WaitedFor waited_for);
  ~CudaEvent();
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  void record(cudaStream_t stream);
  /// Makes later work on `stream` wait for the recorded point. The host doesn't wait.
  void block(cudaStream_t stream) const;
  bool done() const;
  /// Blocks the host. It sleeps, without spinning, if the event was made with `by_host`.
  void synchronize() const;

 private:
  cudaEvent_t event_ = nullptr;
};

/// Measures the time that a stream takes between two points. Made on the current device.
class CudaTimer {
 public:
  CudaTimer();
  ~CudaTimer();
  CudaTimer(const CudaTimer&) = delete;
  CudaTimer& operator=(const CudaTimer&) = delete;

  void start(cudaStream_t stream);
  void stop(cudaStream_t stream);
  /// The time between the two points. Blocks until both are reached.
  float milliseconds() const;

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

/// A queue of work that doesn't wait for the default stream. Move-only. Made on the current device.
class CudaStream {
 public:
  enum class Priority { normal, highest };
  /// Blocks of kernels on a stream of higher priority start before waiting blocks of other streams.
  explicit CudaStream(Priority priority);
  ~CudaStream();
  CudaStream(CudaStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  CudaStream& operator=(CudaStream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace dptrain
