#include "device/cuda_probe.h"

namespace dptrain {

std::vector<CudaDeviceInfo> cuda_devices() { return {}; }

std::string cuda_absence() { return "this build has no CUDA (configure with -DDPTRAIN_CUDA=ON)"; }

std::string cuda_version() { return {}; }

}  // namespace dptrain
