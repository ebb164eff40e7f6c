#include "device/cuda_timeline.h"

#include <limits>

#include "base/error.h"
#include "device/clock_stamp_cuda.h"

namespace dptrain {

CudaTimeline::CudaTimeline(CudaDevice& device, cudaStream_t stream)
    : device_(device), stream_(stream), places_(device, 8 * kPlaces, MemoryPurpose::workspace) {}

int64_t CudaTimeline::mark(bool stays) {
  if (next_ >= first_staying_) return kNone;
  const int64_t number = stays ? first_staying_ - 1 : next_;
  try {
    stamp_clock(place(number), stream_);
  } catch (const Error&) {
    // The device or the recording has failed, and the next call reports it. A span may end while that error propagates.
    return kNone;
  }
  if (stays)
    first_staying_ = number;
  else
    next_ = number + 1;
  return number;
}

std::vector<Clock::time_point> CudaTimeline::moments(const std::vector<int64_t>& marks) {
  given_.record(stream_);
  device_.wait_for(given_);
  const int64_t ahead_ns = host_ahead_ns();
  std::vector<int64_t> stamps(static_cast<size_t>(kPlaces));
  device_.download(stamps.data(), places_.data(), 8 * kPlaces);
  std::vector<Clock::time_point> moments;
  for (const int64_t mark : marks)
    moments.emplace_back(std::chrono::nanoseconds(stamps[static_cast<size_t>(mark)] + ahead_ns));
  next_ = 1;
  return moments;
}

int64_t CudaTimeline::host_ahead_ns() {
  constexpr int kTries = 3;
  const auto now_ns = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
  };
  device_.synchronize();
  int64_t shortest_ns = std::numeric_limits<int64_t>::max(), ahead_ns = 0;
  for (int tried = 0; tried < kTries; ++tried) {
    const int64_t before_ns = now_ns();
    stamp_clock(place(0), device_.stream());
    device_.synchronize();
    const int64_t after_ns = now_ns();
    int64_t stamp_ns = 0;
    device_.download(&stamp_ns, place(0), sizeof stamp_ns);
    if (after_ns - before_ns >= shortest_ns) continue;
    shortest_ns = after_ns - before_ns;
    ahead_ns = before_ns + shortest_ns / 2 - stamp_ns;
  }
  return ahead_ns;
}

}  // namespace dptrain
