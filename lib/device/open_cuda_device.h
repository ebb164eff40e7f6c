#pragma once

#include <memory>

#include "device/device.h"

namespace dptrain {

/// Opens a GPU of this machine. Throws an error with exit code 71 if the GPU can't be used. The error names the CMake
/// option if CUDA isn't built in.
std::unique_ptr<Device> open_cuda_device(const DeviceId& id, const DeviceOptions& options);

}  // namespace dptrain
