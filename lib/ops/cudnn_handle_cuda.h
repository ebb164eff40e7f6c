#pragma once

#include <cudnn.h>

#include <memory>

#include "device/device.h"

namespace dptrain::ops::cuda {

/// Returns cuDNN's handle for the device's stream. It is opened at first use and kept with the device. cuDNN's plans
/// keep it as well, as they were made with it. Throws 71 if cuDNN can't be opened; require_gpu_libraries checks its
/// version.
std::shared_ptr<cudnnContext> cudnn_handle(Device& device);

}  // namespace dptrain::ops::cuda
