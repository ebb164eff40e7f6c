#include <fmt/format.h>

#include "base/error.h"
#include "device/cpu_device.h"
#include "device/device.h"

namespace dptrain {

std::unique_ptr<Device> open_device(const DeviceId& id, const DeviceOptions& options) {
  if (id.kind == DeviceKind::cpu) return std::make_unique<CpuDevice>(id, options);
  throw Error(ExitCode::device, Mistake{.where = id.name(),
                                        .expected = "this version computes on CPU workers only",
                                        .got = "",
                                        .advice = "use --devices cpu:0-1"});
}

}  // namespace dptrain
