// Device memory, and pinned memory of the host.
#include <algorithm>

#include "runtime.h"
#include "storage.h"

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {
namespace {

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

cudaError_t release(Lock& lock, void* address, Place place, const char* call) {
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  if (address == nullptr) return cudaSuccess;
  if (const cudaError_t error = check_unsafe(); error != cudaSuccess) return finish(error);
  auto found = runtime().allocations.find(number(address));
  if (found == runtime().allocations.end() || found->second.place != place || found->second.registered) {
    return refuse(cudaErrorInvalidValue, std::string(call) + ": not an allocation's first address, or freed before");
  }
  wait_for(lock, device_tails(found->second.device));
  found = runtime().allocations.find(number(address));
  if (found == runtime().allocations.end()) return finish(cudaErrorInvalidValue);
  const Allocation allocation = found->second;
  if (place == Place::kDevice) {
    runtime().devices[static_cast<std::size_t>(allocation.device)].used_bytes -= allocation.bytes;
  }
  runtime().allocations.erase(found);
  give_back_storage(address, allocation.bytes);
  return cudaSuccess;
}

}  // namespace

const Allocation* find_allocation(const void* address, std::size_t* bytes_after) {
  auto after = runtime().allocations.upper_bound(number(address));
  if (after == runtime().allocations.begin()) return nullptr;
  const auto& [first, allocation] = *--after;
  const std::size_t offset = number(address) - first;
  if (offset >= std::max<std::size_t>(allocation.bytes, 1)) return nullptr;
  if (bytes_after != nullptr) *bytes_after = allocation.bytes - offset;
  return &allocation;
}

}  // namespace dptrain::cuda_sim

extern "C" {

cudaError_t cudaMalloc(void** address, size_t bytes) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  if (address == nullptr) return finish(cudaErrorInvalidValue);
  if (const cudaError_t error = check_unsafe(); error != cudaSuccess) return finish(error);
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  Device& device = runtime().devices[static_cast<std::size_t>(caller().device)];
  if (bytes > runtime().device_bytes - device.used_bytes) return finish(cudaErrorMemoryAllocation);
  *address = take_storage(bytes);
  if (*address == nullptr) return finish(cudaErrorMemoryAllocation);
  device.used_bytes += bytes;
  runtime().allocations[number(*address)] = {bytes, Place::kDevice, caller().device};
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  Lock lock(runtime().mutex);
  return release(lock, address, Place::kDevice, "cudaFree");
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  if (address == nullptr) return finish(cudaErrorInvalidValue);
  if (const cudaError_t error = check_unsafe(); error != cudaSuccess) return finish(error);
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  *address = take_storage(bytes);
  if (*address == nullptr) return finish(cudaErrorMemoryAllocation);
  runtime().allocations[number(*address)] = {bytes, Place::kPinned, caller().device};
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** address, size_t bytes) { return cudaHostAlloc(address, bytes, 0); }
cudaError_t cudaFreeHost(void* address) {
  Lock lock(runtime().mutex);
  return release(lock, address, Place::kPinned, "cudaFreeHost");
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  if (address == nullptr || bytes == 0) return finish(cudaErrorInvalidValue);
  if (find_allocation(address) != nullptr) return finish(cudaErrorHostMemoryAlreadyRegistered);
  runtime().allocations[number(address)] = {bytes, Place::kPinned, caller().device, true};
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* address) {
  Lock lock(runtime().mutex);
  const auto found = runtime().allocations.find(number(address));
  if (found == runtime().allocations.end() || !found->second.registered) {
    return finish(cudaErrorHostMemoryNotRegistered);
  }
  wait_for(lock, device_tails(found->second.device));
  runtime().allocations.erase(number(address));
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  Lock lock(runtime().mutex);
  const Allocation* allocation = find_allocation(host);
  if (allocation == nullptr || allocation->place != Place::kPinned) return finish(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  const Device& device = runtime().devices[static_cast<std::size_t>(caller().device)];
  if (free_bytes != nullptr) *free_bytes = runtime().device_bytes - device.used_bytes;
  if (total_bytes != nullptr) *total_bytes = runtime().device_bytes;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  if (attributes == nullptr) return finish(cudaErrorInvalidValue);
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -2;
  attributes->hostPointer = const_cast<void*>(address);
  const Allocation* allocation = find_allocation(address);
  if (allocation == nullptr) return cudaSuccess;
  const bool pinned = allocation->place == Place::kPinned;
  attributes->type = pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = allocation->device;
  attributes->devicePointer = const_cast<void*>(address);
  attributes->hostPointer = pinned ? const_cast<void*>(address) : nullptr;
  return cudaSuccess;
}

}  // extern "C"
