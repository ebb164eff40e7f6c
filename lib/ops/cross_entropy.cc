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

void require_share(const char* op, double label_smoothing) {
  DPTRAIN_CHECK(label_smoothing >= 0 && label_smoothing < 1, "{}: label smoothing of {}", op, label_smoothing);
}

}  // namespace

Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  Device& device = checked("cross_entropy", logits, labels);
  require_share("cross_entropy", options.label_smoothing);
  return on_device(
      "cross_entropy", device, [&] { return cpu::cross_entropy_forward(logits, labels, options); },
      [&] { return cuda::cross_entropy_forward(logits, labels, options); });
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  Device& device = checked("cross_entropy backward", logits, labels);
  require_share("cross_entropy backward", options.label_smoothing);
  return on_device(
      "cross_entropy backward", device,
      [&] {
        DPTRAIN_CHECK(!options.factor.defined() || is_logged_gpu(device), "cross_entropy backward: a loss scale on {}",
                      device.name());
        return cpu::cross_entropy_backward(logits, labels, options);
      },
      [&] { return cuda::cross_entropy_backward(logits, labels, options); });
}

Tensor correct_samples(const Tensor& logits, const Tensor& labels) {
  Device& device = checked("correct_samples", logits, labels);
  return on_device(
      "correct_samples", device, [&] { return cpu::correct_samples(logits, labels); },
      [&] { return cuda::correct_samples(logits, labels); });
}

}  // namespace dptrain::ops
