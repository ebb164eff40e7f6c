// The properties that the simulated GPU reports of itself and of its kernels.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime.h"

using namespace dptrain::cuda_sim;

extern "C" {

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
  made.multiProcessorCount = 4;  // few, so that grid-stride loops repeat
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
