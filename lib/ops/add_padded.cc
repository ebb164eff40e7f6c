#include "ops/add_padded.h"

#include "base/check.h"
#include "ops/add_padded_cpu.h"
#include "ops/add_padded_cuda.h"
#include "ops/channel_prefixes.h"
#include "ops/dispatch.h"
#include "ops/reorder.h"

namespace dptrain::ops {
namespace {

void require_fewer_channels(const char* op, const Shape& x, const Shape& y) {
  DPTRAIN_CHECK(are_first_channels(x, y), "{}: {} to be padded to {}", op, x.text(), y.text());
}

}  // namespace

Tensor add_padded(const Tensor& y, const Tensor& x) {
  Device& device = common_device("add_padded", {&y, &x});
  require_fewer_channels("add_padded", x.shape(), y.shape());
  const Tensor added = reorder(x, y.layout());
  const Tensor sum = Tensor::empty(device, y.shape(), {.dtype = y.dtype(), .layout = y.layout()});
  if (sum.elements() == 0) return sum;
  on_device(
      "add_padded", device, [&] { cpu::add_padded(y, added, sum); }, [&] { cuda::add_padded(y, added, sum); });
  return sum;
}

Tensor first_channels(const Tensor& y, const Shape& x) {
  Device& device = common_device("first_channels", {&y});
  require_fewer_channels("first_channels", x, y.shape());
  const Tensor first = Tensor::empty(device, x, {.dtype = y.dtype(), .layout = y.layout()});
  if (first.elements() == 0) return first;
  on_device(
      "first_channels", device, [&] { cpu::first_channels(y, first); }, [&] { cuda::first_channels(y, first); });
  return first;
}

}  // namespace dptrain::ops
