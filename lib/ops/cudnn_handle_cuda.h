#pragma once

#include <cudnn.h>

#include "device/device.h"

namespace dptrain::ops::cuda {

/// cuDNN on the device's stream, opened at first use and kept with the device. Throws 71 where the library can't be
/// used, or isn't of the version that this program was built with.
cudnnHandle_t cudnn_handle(Device& device);

}  // namespace dptrain::ops::cuda
