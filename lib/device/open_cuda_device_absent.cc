#include "base/error.h"
#include "device/cuda_probe.h"
#include "device/open_cuda_device.h"

namespace dptrain {

std::unique_ptr<Device> open_cuda_device(const DeviceId& id, const DeviceOptions&) {
  throw Error(ExitCode::device,
              Mistake{.where = id.name(), .expected = cuda_absence(), .got = "", .advice = "use --devices cpu:0-1"});
}

}  // namespace dptrain
