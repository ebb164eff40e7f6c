#include "ops/cross_entropy.h"

#include "base/check.h"
#include "ops/cross_entropy_cpu.h"
#include "ops/cross_entropy_cuda.h"
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
  return on_device(
      "cross_entropy", device, [&] { return cpu::cross_entropy_forward(logits, labels); },
      [&] { return cuda::cross_entropy_forward(logits, labels); });
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, double scale, const Tensor& factor) {
  Device& device = checked("cross_entropy backward", logits, labels);
  return on_device(
      "cross_entropy backward", device,
      [&] {
        DPTRAIN_CHECK(!factor.defined(), "cross_entropy backward: a loss scale on {}", device.name());
        return cpu::cross_entropy_backward(logits, labels, scale);
      },
      [&] { return cuda::cross_entropy_backward(logits, labels, scale, factor); });
}

Tensor correct_samples(const Tensor& logits, const Tensor& labels) {
  Device& device = checked("correct_samples", logits, labels);
  return on_device(
      "correct_samples", device, [&] { return cpu::correct_samples(logits, labels); },
      [&] { return cuda::correct_samples(logits, labels); });
}

}  // namespace dptrain::ops
