#include "device/cuda_host_memory.h"

#include <cstring>

#include "device/cuda_check.h"
#include "device/cuda_device.h"

namespace dptrain {

PinnedMemory::PinnedMemory(int64_t bytes) : HostMemory(nullptr) {
  cuda_check(cudaMallocHost(&data_, static_cast<size_t>(bytes)), "cudaMallocHost");
}

PinnedMemory::~PinnedMemory() { cudaFreeHost(data_); }

void UploadRing::upload(CudaDevice& device, void* to, const void* host, int64_t bytes) {
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  device.wait_for(slot.copied);
  std::memcpy(slot.memory.data(), host, static_cast<size_t>(bytes));
  cuda_check(cudaMemcpyAsync(to, slot.memory.data(), static_cast<size_t>(bytes), cudaMemcpyDefault, device.stream()),
             "cudaMemcpyAsync");
  slot.copied.record(device.stream());
}

}  // namespace dptrain
