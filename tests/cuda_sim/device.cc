// Devices: their number, the current one, waiting for one, and access from one to another.
#include <cstdio>
#include <cstdlib>

#include "runtime.h"

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {
namespace {

std::size_t from_environment(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (*end == '\0') return static_cast<std::size_t>(value);
  std::fprintf(stderr, "cuda_sim: %s: expected a number, got '%s'\n", name, text);
  std::abort();
}

}  // namespace

Runtime& runtime() {
  // Never destroyed, because threads and their destructors may use it later.
  static Runtime& machine = *[] {
    auto* made = new Runtime;
    made->devices.resize(from_environment("DPTRAIN_CUDA_SIM_DEVICES", 2));
    made->device_bytes = from_environment("DPTRAIN_CUDA_SIM_MEMORY_BYTES", std::size_t{1} << 30);
    return made;
  }();
  return machine;
}

Caller& caller() {
  thread_local Caller self;
  return self;
}

cudaError_t usable() {
  const auto& devices = runtime().devices;
  if (devices.empty()) return cudaErrorNoDevice;
  return devices[static_cast<std::size_t>(caller().device)].sticky;
}

}  // namespace dptrain::cuda_sim

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return finish(cudaErrorInvalidValue);
  *count = static_cast<int>(runtime().devices.size());
  return finish(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
  if (runtime().devices.empty()) return finish(cudaErrorNoDevice);
  *device = caller().device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (runtime().devices.empty()) return finish(cudaErrorNoDevice);
  if (device < 0 || static_cast<std::size_t>(device) >= runtime().devices.size()) return finish(cudaErrorInvalidDevice);
  caller().device = device;
  return cudaSuccess;
}
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  int count = 0;
  cudaGetDeviceCount(&count);
  return finish(device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = cudaDeviceScheduleAuto;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  const int device = caller().device;
  if (const cudaError_t error = check_device_not_capturing(device); error != cudaSuccess) return finish(error);
  if (const cudaError_t error = check_unsafe(); error != cudaSuccess) return finish(error);
  wait_for(lock, device_tails(device));
  return finish(runtime().devices[static_cast<std::size_t>(device)].sticky);
}

// Ends the device's work and clears its error. Memory and handles stay, so that later frees by the caller are valid.
cudaError_t cudaDeviceReset() {
  Lock lock(runtime().mutex);
  if (runtime().devices.empty()) return finish(cudaErrorNoDevice);
  const int device = caller().device;
  wait_for(lock, device_tails(device));
  runtime().devices[static_cast<std::size_t>(device)].sticky = cudaSuccess;
  caller().last_error = cudaSuccess;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  const int count = static_cast<int>(runtime().devices.size());
  if (device < 0 || peer < 0 || device >= count || peer >= count) return finish(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags != 0) return finish(cudaErrorInvalidValue);
  if (peer < 0 || static_cast<std::size_t>(peer) >= runtime().devices.size() || peer == caller().device) {
    return finish(cudaErrorInvalidDevice);
  }
  static std::set<std::pair<int, int>> enabled;
  Lock lock(runtime().mutex);
  if (!enabled.emplace(caller().device, peer).second) return finish(cudaErrorPeerAccessAlreadyEnabled);
  return cudaSuccess;
}

}  // extern "C"
