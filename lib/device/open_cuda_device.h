#pragma once

#include <memory>

#include "device/device.h"

namespace dptrain {

/// A GPU of this machine. Throws 71 where it can't be used, or where CUDA isn't built in, naming the CMake option.
std::unique_ptr<Device> open_cuda_device(const DeviceId& id, const DeviceOptions& options);

}  // namespace dptrain
