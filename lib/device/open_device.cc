#include "base/check.h"
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
  report_bug(__FILE__, __LINE__, "a device that computes", id.name() + " can't be opened");
}

}  // namespace dptrain
