#include "base/error.h"
#include "device/cpu_device.h"
#include "device/device.h"
#include "device/open_cuda_device.h"

namespace dptrain {

std::unique_ptr<Device> open_device(const DeviceId& id, const DeviceOptions& options) {
  switch (id.kind) {
    case DeviceKind::cpu: return std::make_unique<CpuDevice>(id, options);
    case DeviceKind::cuda: return open_cuda_device(id, options);
    case DeviceKind::meta: break;
  }
  throw Error(ExitCode::device, id.name() + ": only counts, it can't compute; use --devices cpu:0-1");
}

}  // namespace dptrain
