#include "ops/dropout.h"

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/dropout_cpu.h"
#include "ops/dropout_cuda.h"
#include "ops/elementwise_cpu.h"
#include "ops/elementwise_cuda.h"

namespace dptrain::ops {
namespace {

Tensor scaled(const char* op, const Tensor& x, const Tensor& mask, float probability) {
  Device& device = common_device(op, {&x, &mask});
  Tensor out = Tensor::empty(device, x.shape(), {.dtype = x.dtype(), .layout = x.layout()});
  const float scale = dropout_scale(probability);
  on_device(
      op, device, [&] { cpu::masked_scale(x, mask, scale, out); }, [&] { cuda::masked_scale(x, mask, scale, out); });
  return out;
}

void draw_mask(const Tensor& mask, uint32_t threshold, const DropoutKey& key) {
  on_device(
      "dropout", mask.device(), [&] { cpu::draw_mask(mask, threshold, key); },
      [&] { cuda::draw_mask(mask, threshold, key); });
}

}  // namespace

uint32_t dropout_threshold(float probability) {
  return static_cast<uint32_t>(static_cast<double>(probability) * 0x1.0p32);
}

void require_dropout(const char* op, const Tensor& x, float probability, const DropoutKey& key) {
  DPTRAIN_CHECK(probability >= 0.f && probability < 1.f, "{}: probability {}", op, probability);
  common_device(op, {&x, &key.epoch, &key.sample_ids, &key.rows});
  const Tensor& first_dimension = key.rows.defined() ? key.rows : key.sample_ids;
  DPTRAIN_CHECK(first_dimension.defined() && first_dimension.elements() == x.shape()[0],
                "{}: {} sample ids or rows for {}", op, first_dimension.defined() ? first_dimension.elements() : 0,
                x.text());
  DPTRAIN_CHECK(!key.rows.defined() || (x.shape().rank() == 2 && key.sequence > 0), "{}: rows of {} for {}", op,
                key.sequence, x.text());
  DPTRAIN_CHECK(key.epoch.defined(), "{}: no epoch for {}", op, x.text());
}

DropoutResult dropout_forward(const Tensor& x, float probability, const DropoutKey& key) {
  require_dropout("dropout", x, probability, key);
  const TensorOptions like_x{.dtype = DType::u8, .layout = x.layout()};
  // The padding of blocked layouts must be zero.
  const Tensor mask = x.layout() == Layout::plain ? Tensor::empty(x.device(), x.shape(), like_x)
                                                  : Tensor::zeros(x.device(), x.shape(), like_x);
  draw_mask(mask, dropout_threshold(probability), key);
  return {.y = scaled("dropout", x, mask, probability), .mask = mask};
}

Tensor dropout_backward(const Tensor& mask, const Tensor& output_gradient, float probability) {
  DPTRAIN_CHECK(mask.layout() == output_gradient.layout() && mask.shape() == output_gradient.shape(),
                "dropout backward: mask {} and gradient {}", mask.text(), output_gradient.text());
  return scaled("dropout backward", output_gradient, mask, probability);
}

}  // namespace dptrain::ops
