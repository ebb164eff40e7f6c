#include "ops/cross_entropy.h"

#include "base/check.h"
#include "ops/cross_entropy_cpu.h"
#include "ops/dispatch.h"

namespace dptrain::ops {
namespace {

Device& checked(const char* op, const Tensor& logits, const Tensor& labels) {
  Device& device = common_device(op, {&logits, &labels});
  DPTRAIN_CHECK(logits.shape().rank() == 2 && labels.shape() == Shape({logits.shape()[0]}),
                "{}: logits {} and labels {}", op, logits.text(), labels.text());
  return device;
}

}  // namespace

Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels) {
  Device& device = checked("cross_entropy", logits, labels);
  switch (device.kind()) {
    case DeviceKind::cpu: return cpu::cross_entropy_forward(logits, labels);
    default: no_implementation("cross_entropy", device);
  }
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, double scale) {
  Device& device = checked("cross_entropy backward", logits, labels);
  switch (device.kind()) {
    case DeviceKind::cpu: return cpu::cross_entropy_backward(logits, labels, scale);
    default: no_implementation("cross_entropy backward", device);
  }
}

int64_t count_correct(const Tensor& logits, const Tensor& labels) {
  Device& device = checked("count_correct", logits, labels);
  switch (device.kind()) {
    case DeviceKind::cpu: return cpu::count_correct(logits, labels);
    default: no_implementation("count_correct", device);
  }
}

}  // namespace dptrain::ops
