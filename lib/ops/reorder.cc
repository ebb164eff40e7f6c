#include "ops/reorder.h"

#include "ops/dispatch.h"
#include "ops/reorder_cpu.h"

namespace dptrain::ops {

Tensor reorder(const Tensor& x, Layout layout, MemoryPurpose purpose) {
  if (x.layout() == layout) return x;
  Tensor result = Tensor::empty(x.device(), x.shape(), {.layout = layout, .purpose = purpose});
  reorder_into(x, result);
  return result;
}

void reorder_into(const Tensor& from, const Tensor& to) {
  Device& device = common_device("reorder", {&from, &to});
  require_shape("reorder", "output", to.shape(), from.shape());
  if (from.elements() == 0) return;
  if (from.layout() == to.layout()) return to.copy_from(from);
  switch (device.kind()) {
    case DeviceKind::cpu: return cpu::reorder_into(from, to);
    default: no_implementation("reorder", device);
  }
}

}  // namespace dptrain::ops
