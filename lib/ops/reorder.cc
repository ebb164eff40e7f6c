#include "ops/reorder.h"

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/reorder_cpu.h"
#include "ops/reorder_cuda.h"

namespace dptrain::ops {

Tensor reorder(const Tensor& x, Layout layout, MemoryPurpose purpose) {
  return converted(x, {.dtype = x.dtype(), .layout = layout, .purpose = purpose});
}

Tensor converted(const Tensor& x, const TensorOptions& options) {
  if (x.layout() == options.layout && x.dtype() == options.dtype) return x;
  Tensor result = Tensor::empty(x.device(), x.shape(), options);
  reorder_into(x, result);
  return result;
}

void reorder_into(const Tensor& from, const Tensor& to) {
  Device& device = common_device("reorder", {&from, &to});
  require_shape("reorder", "output", to.shape(), from.shape());
  if (from.elements() == 0) return;
  if (from.layout() == to.layout() && from.dtype() == to.dtype()) return to.copy_from(from);
  DPTRAIN_CHECK(
      device.kind() == DeviceKind::cpu || (layout_block(from.layout()) == 1 && layout_block(to.layout()) == 1),
      "reorder of {} to {}: blocks of channels are for CPU workers", from.text(), to.text());
  return on_device(
      "reorder", device,
      [&] {
        if (!is_logged_gpu(device)) cpu::reorder_into(from, to);
      },
      [&] { return cuda::reorder_into(from, to); });
}

}  // namespace dptrain::ops
