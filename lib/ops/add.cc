#include "ops/add.h"

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/elementwise_cpu.h"
#include "ops/elementwise_cuda.h"

namespace dptrain::ops {
namespace {

void require_alike(const Tensor& a, const Tensor& b) {
  DPTRAIN_CHECK(a.shape() == b.shape() && a.layout() == b.layout() && a.dtype() == b.dtype(), "add: {} and {}",
                a.text(), b.text());
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  Device& device = common_device("add", {&a, &b});
  require_alike(a, b);
  Tensor sum = Tensor::empty(device, a.shape(), {.dtype = a.dtype(), .layout = a.layout()});
  on_device(
      "add", device, [&] { cpu::add(a, b, sum); }, [&] { cuda::add(a, b, sum); });
  return sum;
}

void add_into(const Tensor& to, const Tensor& from) {
  Device& device = common_device("add", {&to, &from});
  require_alike(to, from);
  return on_device(
      "add", device, [&] { return cpu::add_into(to, from); }, [&] { return cuda::add_into(to, from); });
}

}  // namespace dptrain::ops
