#include "device/cuda_probe.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace dptrain {
namespace {

int device_count(std::string* absence) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    *absence = fmt::format("CUDA finds no GPU on this machine ({})", cudaGetErrorString(error));
    return 0;
  }
  if (count == 0) *absence = "CUDA finds no GPU on this machine";
  return count;
}

std::string hexadecimal(const cudaUUID_t& uuid) {
  std::string text;
  for (const char byte : uuid.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

std::vector<CudaDeviceInfo> cuda_devices() {
  std::string absence;
  std::vector<CudaDeviceInfo> devices;
  for (int index = 0; index < device_count(&absence); ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    devices.push_back({.index = index,
                       .name = properties.name,
                       .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
                       .compute_capability = fmt::format("{}.{}", properties.major, properties.minor),
                       .uuid = hexadecimal(properties.uuid)});
  }
  return devices;
}

std::string cuda_absence() {
  std::string absence;
  device_count(&absence);
  return absence;
}

std::string cuda_version() { return fmt::format("{}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10); }

}  // namespace dptrain
