#include "device/cpu_device.h"
#include "device/device.h"
#include "device/meta_device.h"
#include "device/open_cuda_device.h"

namespace dptrain {

std::unique_ptr<Device> open_device(const DeviceId& id, const DeviceOptions& options) {
  if (options.counts_only) return std::make_unique<MetaDevice>(id, options);
  if (id.kind == DeviceKind::cuda) return open_cuda_device(id, options);
  return std::make_unique<CpuDevice>(id, options);
}

}  // namespace dptrain
