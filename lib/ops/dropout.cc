#include "ops/dropout.h"

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/dropout_cpu.h"
#include "ops/dropout_cuda.h"
#include "ops/elementwise_cpu.h"
#include "ops/elementwise_cuda.h"

namespace dptrain::ops {
namespace {

Tensor scaled(const Tensor& x, const Tensor& mask, float probability) {
  Device& device = common_device("dropout", {&x, &mask});
  Tensor out = Tensor::empty(device, x.shape(), {.dtype = x.dtype(), .layout = x.layout()});
  const float scale = 1.f / (1.f - probability);
  on_device(
      "dropout", device, [&] { cpu::masked_scale(x, mask, scale, out); },
      [&] { cuda::masked_scale(x, mask, scale, out); });
  return out;
}

void draw_mask(const Tensor& mask, uint32_t threshold, const DropoutKey& key) {
  on_device(
      "dropout", mask.device(), [&] { cpu::draw_mask(mask, threshold, key); },
      [&] { cuda::draw_mask(mask, threshold, key); });
}

}  // namespace

DropoutResult dropout_forward(const Tensor& x, float probability, const DropoutKey& key) {
  DPTRAIN_CHECK(probability >= 0.f && probability < 1.f, "dropout: probability {}", probability);
  DPTRAIN_CHECK(static_cast<int64_t>(key.sample_ids.size()) == x.shape()[0], "dropout: {} sample ids for {}",
                key.sample_ids.size(), x.text());
  const Tensor mask = Tensor::zeros(x.device(), x.shape(), {.dtype = DType::u8, .layout = x.layout()});
  draw_mask(mask, static_cast<uint32_t>(static_cast<double>(probability) * 0x1.0p32), key);
  return {.y = scaled(x, mask, probability), .mask = mask};
}

Tensor dropout_backward(const Tensor& mask, const Tensor& output_gradient, float probability) {
  DPTRAIN_CHECK(mask.layout() == output_gradient.layout() && mask.shape() == output_gradient.shape(),
                "dropout backward: mask {} and gradient {}", mask.text(), output_gradient.text());
  return scaled(output_gradient, mask, probability);
}

}  // namespace dptrain::ops
