#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dptrain {

/// A GPU of this machine, as the CUDA runtime describes it. Reading this allocates nothing on the GPU.
struct CudaDeviceInfo {
  int index = 0;
  std::string name;
  int64_t memory_bytes = 0;
  std::string compute_capability;  ///< "9.0"
  std::string uuid;                ///< in hexadecimal digits; unique among the GPUs of all hosts
};

/// The GPUs of this machine. Empty if there are none or if CUDA isn't built in; `cuda_absence` says which.
std::vector<CudaDeviceInfo> cuda_devices();

/// One sentence on why there are no GPUs: it names the CMake option or the driver's error. Empty if there are GPUs.
std::string cuda_absence();

/// The version, such as "13.0"; "" if CUDA isn't built in.
std::string cuda_version();

}  // namespace dptrain
