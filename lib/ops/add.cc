#include "ops/add.h"

#include "base/check.h"
#include "device/parallel_for.h"
#include "ops/dispatch.h"
#include "ops/elementwise_kernels.h"

namespace dptrain::ops {
namespace {

constexpr int64_t kGrain = 16384;

void require_alike(const Tensor& a, const Tensor& b) {
  DPTRAIN_CHECK(a.shape() == b.shape() && a.layout() == b.layout(), "add: {} and {}", a.text(), b.text());
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  Device& device = common_device("add", {&a, &b});
  require_alike(a, b);
  if (device.kind() != DeviceKind::cpu) no_implementation("add", device);
  Tensor sum = Tensor::empty(device, a.shape(), {.layout = a.layout()});
  parallel_ranges(device, a.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    elementwise_kernels().add(a.data<float>() + begin, b.data<float>() + begin, sum.data<float>() + begin, end - begin);
  });
  return sum;
}

void add_into(const Tensor& to, const Tensor& from) {
  Device& device = common_device("add", {&to, &from});
  require_alike(to, from);
  if (device.kind() != DeviceKind::cpu) no_implementation("add", device);
  parallel_ranges(device, to.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    elementwise_kernels().add_into(to.data<float>() + begin, from.data<float>() + begin, end - begin);
  });
}

}  // namespace dptrain::ops
