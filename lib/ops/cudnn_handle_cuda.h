#pragma once

#include <cudnn.h>

#include <memory>

#include "device/device.h"

namespace dptrain::ops::cuda {

/// cuDNN on the device's stream, opened at first use and kept with the device; its plans, which were made with it, keep
/// it as well. Throws 71 where the library can't be used, or isn't of the version that this program was built with.
std::shared_ptr<cudnnContext> cudnn_handle(Device& device);

}  // namespace dptrain::ops::cuda
