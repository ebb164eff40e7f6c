#include "device/clock_stamp_cuda.h"
#include "device/cuda_device.h"
#include "ops/cuda_kernels.h"
#include "ops/step_results_cuda.h"

namespace dptrain::ops::cuda {
namespace {

/// Copies over the bus: a few kilobytes, which the host reads only after the stream's mark.
__global__ void publish_kernel(const uint8_t* bytes, int64_t count, const int64_t* address) {
  auto* to = reinterpret_cast<uint8_t*>(*address);
  const int64_t words = count / 8;
  for (int64_t i = global_thread(); i < words; i += global_threads())
    reinterpret_cast<uint64_t*>(to)[i] = reinterpret_cast<const uint64_t*>(bytes)[i];
  for (int64_t i = 8 * words + global_thread(); i < count; i += global_threads()) to[i] = bytes[i];
}

}  // namespace

void stamp_time(const Tensor& stamps, int64_t at) {
  stamp_clock(stamps.data<int64_t>() + at, CudaDevice::of(stamps.device()).stream());
}

void add_lap(const Tensor& laps, int64_t at) {
  auto* const first = laps.data<int64_t>();
  add_clock_lap(first, first + at, CudaDevice::of(laps.device()).stream());
}

void publish(const Tensor& bytes, const Tensor& address) {
  const int64_t count = bytes.bytes();
  if (count == 0) return;
  launch("publish", bytes, blocks_for(bytes, count / 8), kThreads, publish_kernel, bytes.data<uint8_t>(), count,
         address.data<int64_t>());
}

}  // namespace dptrain::ops::cuda
