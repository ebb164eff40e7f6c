#include "ops/linear_cpu.h"

#include <vector>

#include "ops/bias_cpu.h"
#include "ops/f32_operands.h"
#include "ops/linear_kernels.h"
#include "ops/linear_product_cpu.h"
#include "ops/linear_tiles_cpu.h"

// Uses our own products. oneDNN's forward adds in an order that depends on its threads, and all of its passes pack
// plain matrices again at each call, into memory that they allocate and free each time.

namespace dptrain::ops::cpu {
namespace {

/// to = the sums, or to += the sums.
void write_sums(const double* sums, int64_t count, float* to, bool accumulate) {
  for (int64_t c = 0; c < count; ++c) to[c] = static_cast<float>(sums[c] + (accumulate ? to[c] : 0.f));
}

}  // namespace

Tensor linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
  Tensor y = Tensor::empty(x.device(), {x.shape()[0], weight.shape()[0]}, {.dtype = x.dtype()});
  if (y.elements() == 0) return y;
  if (multiplies_by_tiles(x.dtype(), weight.dtype())) {
    linear_forward_by_tiles(x, weight, bias, relu, y);
    return y;
  }
  // A sample's bits depend on nothing but the sample itself, so evaluation shows the same figures on any devices.
  const Tensor added = bias.defined() ? as_f32(bias, bias.layout()) : bias;
  const Tensor computed = f32_for(y), from = as_f32(x, Layout::plain), by = as_f32(weight, Layout::plain);
  multiply(ProductFactor(from, false), ProductFactor(by, false), computed,
           {.bias = added.defined() ? added.data<float>() : nullptr, .relu = relu});
  round_into(computed, y);
  return y;
}

Tensor linear_backward_data(const Tensor& weight, const Tensor& output_gradient) {
  Tensor gradient = Tensor::empty(weight.device(), {output_gradient.shape()[0], weight.shape()[1]},
                                  {.dtype = output_gradient.dtype()});
  if (gradient.elements() == 0) return gradient;
  if (multiplies_by_tiles(output_gradient.dtype(), weight.dtype())) {
    linear_backward_data_by_tiles(weight, output_gradient, gradient);
    return gradient;
  }
  const Tensor computed = f32_for(gradient), incoming = as_f32(output_gradient, Layout::plain),
               by = as_f32(weight, Layout::plain);
  multiply(ProductFactor(incoming, false), ProductFactor(by, true), computed, {.in_blocks = true});
  round_into(computed, gradient);
  return gradient;
}

void linear_backward_weights(const Tensor& x, const Tensor& output_gradient, const LinearWeightGradients& gradients) {
  const bool with_bias = gradients.bias.defined();
  if (x.elements() == 0) {
    if (!gradients.accumulate_weight) gradients.weight.fill_zero();
    if (with_bias && !gradients.accumulate_bias) gradients.bias.fill_zero();
    return;
  }
  const bool by_tiles = multiplies_by_tiles(output_gradient.dtype(), x.dtype());
  if (by_tiles && !with_bias)
    return linear_backward_weight_by_tiles(x, output_gradient, gradients.weight, gradients.accumulate_weight);
  const Tensor incoming = as_f32(output_gradient, Layout::plain);
  if (by_tiles) {
    linear_backward_weight_by_tiles(x, output_gradient, gradients.weight, gradients.accumulate_weight);
    bias_gradient(incoming, gradients.bias, gradients.accumulate_bias);
    return;
  }
  std::vector<double> sums(static_cast<size_t>(with_bias ? gradients.bias.elements() : 0));
  const Tensor from = as_f32(x, Layout::plain);
  multiply(
      ProductFactor(incoming, true), ProductFactor(from, true), gradients.weight,
      {.in_blocks = true, .accumulate = gradients.accumulate_weight, .left_sums = with_bias ? sums.data() : nullptr});
  if (with_bias && x.device().computes())
    write_sums(sums.data(), gradients.bias.elements(), gradients.bias.data<float>(), gradients.accumulate_bias);
}

}  // namespace dptrain::ops::cpu
