// Devices, their properties, and errors.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

struct Named {
  cudaError_t error;
  const char* name;
  const char* text;
};
#define DPTRAIN_NAMED(error, text) \
  Named { error, #error, text }
constexpr Named kErrors[] = {
    DPTRAIN_NAMED(cudaSuccess, "no error"),
    DPTRAIN_NAMED(cudaErrorInvalidValue, "invalid argument"),
    DPTRAIN_NAMED(cudaErrorMemoryAllocation, "out of memory"),
    DPTRAIN_NAMED(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    DPTRAIN_NAMED(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    DPTRAIN_NAMED(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    DPTRAIN_NAMED(cudaErrorInvalidDevice, "invalid device ordinal"),
    DPTRAIN_NAMED(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    DPTRAIN_NAMED(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    DPTRAIN_NAMED(cudaErrorNotReady, "device not ready"),
    DPTRAIN_NAMED(cudaErrorLaunchFailure, "unspecified launch failure"),
    DPTRAIN_NAMED(cudaErrorNotSupported, "operation not supported"),
    DPTRAIN_NAMED(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    DPTRAIN_NAMED(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    DPTRAIN_NAMED(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureImplicit,
                  "operation would make the legacy stream depend on a capturing blocking stream"),
    DPTRAIN_NAMED(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureWrongThread,
                  "attempt to terminate a thread-local capture sequence from another thread"),
};
#undef DPTRAIN_NAMED

const Named* find_error(cudaError_t error) {
  for (const Named& named : kErrors) {
    if (named.error == error) return &named;
  }
  return nullptr;
}

}  // namespace

Runtime& runtime() {
  // Never destroyed: threads and their destructors may come later.
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

cudaError_t finish(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) caller().last_error = error;
  return error;
}

cudaError_t refuse(cudaError_t error, const std::string& why) {
  std::fprintf(stderr, "cuda_sim: %s: %s\n", cudaGetErrorName(error), why.c_str());
  return finish(error);
}

cudaError_t usable() {
  const auto& devices = runtime().devices;
  if (devices.empty()) return cudaErrorNoDevice;
  return devices[static_cast<std::size_t>(caller().device)].sticky;
}

}  // namespace dptrain::cuda_sim

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const Named* named = find_error(error);
  return named != nullptr ? named->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const Named* named = find_error(error);
  return named != nullptr ? named->text : "unrecognized error code";
}
cudaError_t cudaPeekAtLastError() { return caller().last_error; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = caller().last_error;
  Lock lock(runtime().mutex);
  const cudaError_t sticky = usable();
  caller().last_error = sticky == cudaErrorNoDevice ? cudaSuccess : sticky;
  return error;
}

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

// Ends the device's work and forgets its error. Memory and handles stay, so that what the caller frees later is known.
cudaError_t cudaDeviceReset() {
  Lock lock(runtime().mutex);
  if (runtime().devices.empty()) return finish(cudaErrorNoDevice);
  const int device = caller().device;
  wait_for(lock, device_tails(device));
  runtime().devices[static_cast<std::size_t>(device)].sticky = cudaSuccess;
  caller().last_error = cudaSuccess;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) return error;
  if (properties == nullptr || device < 0 || device >= count) return finish(cudaErrorInvalidDevice);
  cudaDeviceProp made{};
  std::strcpy(made.name, "Simulated GPU");
  made.uuid.bytes[0] = static_cast<char>(device + 1);
  made.totalGlobalMem = runtime().device_bytes;
  made.sharedMemPerBlock = 48 * 1024;
  made.sharedMemPerBlockOptin = 227 * 1024;
  made.sharedMemPerMultiprocessor = 228 * 1024;
  made.reservedSharedMemPerBlock = 1024;
  made.regsPerBlock = made.regsPerMultiprocessor = 65536;
  made.warpSize = 32;
  made.memPitch = 2147483647;
  made.maxThreadsPerBlock = 1024;
  made.maxThreadsDim[0] = made.maxThreadsDim[1] = 1024;
  made.maxThreadsDim[2] = 64;
  made.maxGridSize[0] = 2147483647;
  made.maxGridSize[1] = made.maxGridSize[2] = 65535;
  made.totalConstMem = 65536;
  made.major = 9;
  made.multiProcessorCount = 4;  // few, so that loops over the grid go round
  made.canMapHostMemory = made.concurrentKernels = made.unifiedAddressing = 1;
  made.pciBusID = device + 1;
  made.asyncEngineCount = 3;
  made.memoryBusWidth = 5120;
  made.l2CacheSize = 50 << 20;
  made.maxThreadsPerMultiProcessor = 2048;
  made.maxBlocksPerMultiProcessor = 32;
  made.streamPrioritiesSupported = made.computePreemptionSupported = made.hostRegisterSupported = 1;
  *properties = made;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = properties.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: *value = properties.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY: *value = properties.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ: *value = properties.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX: *value = properties.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = properties.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = properties.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(properties.sharedMemPerBlock); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(properties.sharedMemPerBlockOptin); break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(properties.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = properties.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = properties.regsPerBlock; break;
    case cudaDevAttrWarpSize: *value = properties.warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; break;
    case cudaDevAttrL2CacheSize: *value = properties.l2CacheSize; break;
    case cudaDevAttrPciBusId: *value = properties.pciBusID; break;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrIntegrated: *value = 0; break;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrStreamPrioritiesSupported: *value = 1; break;
    case cudaDevAttrAsyncEngineCount: *value = properties.asyncEngineCount; break;
    case cudaDevAttrClockRate: *value = 1000000; break;
    default: return refuse(cudaErrorNotSupported, "cudaDeviceGetAttribute: attribute " + std::to_string(attribute));
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", static_cast<unsigned>(device + 1));
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
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

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int) {
  return finish(function != nullptr ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  if (attributes == nullptr || function == nullptr) return finish(cudaErrorInvalidValue);
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int block_size, size_t) {
  if (blocks == nullptr || block_size <= 0 || block_size > 1024) return finish(cudaErrorInvalidValue);
  *blocks = std::min(32, 2048 / block_size);
  return cudaSuccess;
}

}  // extern "C"
