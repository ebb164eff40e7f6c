#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dptrain {

/// What this machine's CUDA runtime says of its GPUs. Nothing is allocated on them.
struct CudaDeviceInfo {
  int index = 0;
  std::string name;
  int64_t memory_bytes = 0;
  std::string compute_capability;  ///< "9.0"
  std::string uuid;                ///< in hexadecimal digits: other than that of any other GPU, also of other hosts
};

/// Empty where there is none or where CUDA isn't built in; `cuda_absence` says which.
std::vector<CudaDeviceInfo> cuda_devices();

/// One sentence on why there are no GPUs: the CMake option, the driver's own error. Empty where there are some.
std::string cuda_absence();

/// "13.0", or "" where CUDA isn't built in.
std::string cuda_version();

}  // namespace dptrain
