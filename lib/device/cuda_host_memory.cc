#include "device/cuda_host_memory.h"

#include <cstring>

#include "device/cuda_check.h"

namespace dptrain {

PinnedMemory::PinnedMemory(int64_t bytes) : HostMemory(nullptr) {
  cuda_check(cudaMallocHost(&data_, static_cast<size_t>(bytes)), "cudaMallocHost");
}

PinnedMemory::~PinnedMemory() { cudaFreeHost(data_); }

void UploadRing::upload(void* to, const void* host, int64_t bytes, cudaStream_t stream) {
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  slot.copied.synchronize();
  std::memcpy(slot.memory.data(), host, static_cast<size_t>(bytes));
  cuda_check(cudaMemcpyAsync(to, slot.memory.data(), static_cast<size_t>(bytes), cudaMemcpyDefault, stream),
             "cudaMemcpyAsync");
  slot.copied.record(stream);
}

}  // namespace dptrain
