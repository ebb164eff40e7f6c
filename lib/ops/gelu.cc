#include "ops/gelu.h"

#include <algorithm>

#include "device/parallel_for.h"
#include "ops/bias_cuda.h"
#include "ops/dispatch.h"
#include "ops/elementwise_cpu.h"
#include "ops/elementwise_cuda.h"
#include "ops/f32_pieces.h"
#include "ops/reorder.h"

namespace dptrain::ops {
namespace {

/// For CPU workers, in double.
void add_up_rows(const Tensor& rows, const BiasGradient& bias) {
  if (!rows.device().computes()) return;
  constexpr int64_t kColumns = 128;
  const int64_t width = bias.target.elements(), blocks = (width + kColumns - 1) / kColumns;
  parallel_for(rows.device(), blocks, [&](int64_t block) {
    const int64_t first = block * kColumns, count = std::min(kColumns, width - first);
    float room[kColumns];
    double sums[kColumns] = {};
    for (int64_t at = first; at < rows.elements(); at += width) {
      cpu::Pieces pieces(room);
      const float* row = pieces.read(rows, at, count);
      for (int64_t c = 0; c < count; ++c) sums[c] += row[c];
    }
    float* to = bias.target.data<float>() + first;
    for (int64_t c = 0; c < count; ++c) to[c] = static_cast<float>(sums[c] + (bias.accumulate ? to[c] : 0.f));
  });
}

}  // namespace

Tensor gelu_forward(const Tensor& x) {
  Device& device = common_device("gelu", {&x});
  Tensor y = Tensor::empty(device, x.shape(), {.dtype = x.dtype(), .layout = x.layout()});
  on_device(
      "gelu", device, [&] { cpu::gelu_forward(x, y); }, [&] { cuda::gelu_forward(x, y); });
  return y;
}

Tensor gelu_backward(const Tensor& x, const Tensor& output_gradient) {
  Device& device = common_device("gelu backward", {&x, &output_gradient});
  require_shape("gelu backward", "output gradient", output_gradient.shape(), x.shape());
  const Tensor incoming = reorder(output_gradient, x.layout());
  Tensor gradient = Tensor::empty(device, x.shape(), {.dtype = x.dtype(), .layout = x.layout()});
  on_device(
      "gelu backward", device, [&] { cpu::gelu_backward(x, incoming, gradient); },
      [&] { cuda::gelu_backward(x, incoming, gradient); });
  return gradient;
}

Tensor gelu_backward(const Tensor& x, const Tensor& output_gradient, const BiasGradient& bias) {
  Device& device = common_device("gelu backward", {&x, &output_gradient, &bias.target});
  require_shape("gelu backward", "output gradient", output_gradient.shape(), x.shape());
  require_shape("gelu backward", "bias gradient", bias.target.shape(), {x.shape()[-1]});
  Tensor gradient = Tensor::empty(device, x.shape(), {.dtype = x.dtype()});
  if (x.elements() == 0) {
    if (!bias.accumulate) bias.target.fill_zero();
    return gradient;
  }
  on_device(
      "gelu backward", device,
      [&] {
        cpu::gelu_backward(x, output_gradient, gradient);
        add_up_rows(gradient, bias);
      },
      [&] {
        const Shape rows = {x.elements() / x.shape()[-1], x.shape()[-1]};
        cuda::gelu_bias_backward(x.reshaped(rows), output_gradient.reshaped(rows), gradient.reshaped(rows), bias.target,
                                 bias.accumulate);
      });
  return gradient;
}

bool gelu_sums_up_bias(const Device& device) { return device.kind() == DeviceKind::cuda; }

}  // namespace dptrain::ops
