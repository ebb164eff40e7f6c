#include "ops/linear_cuda.h"

#include "device/cuda_device.h"
#include "ops/bias_cuda.h"
#include "ops/cublaslt_product_cuda.h"
#include "ops/relu.h"

namespace dptrain::ops::cuda {
namespace {

ProductEpilogue forward_epilogue(bool bias, bool relu) {
  if (bias) return relu ? ProductEpilogue::bias_relu : ProductEpilogue::bias;
  return relu ? ProductEpilogue::relu : ProductEpilogue::none;
}

/// Whether a product keeps a GPU busy without its sums being split among multiprocessors, which epilogues over sums
/// rule out: a tile of `out` each, or sums so short that a pass of its own over `a` would cost more.
bool fills_gpu_unsplit(const Product& product) {
  constexpr int64_t kTile = 128, kShortSum = 2048;
  const auto tiles = [](int64_t side) { return (side + kTile - 1) / kTile; };
  const Shape& out = product.out.shape();
  return product.a.shape()[-2] <= kShortSum ||
         tiles(out[0]) * tiles(out[1]) >= CudaDevice::of(product.out.device()).multiprocessors() / 2;
}

}  // namespace

Tensor linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
  Tensor y = Tensor::empty(x.device(), {x.shape()[0], weight.shape()[0]}, {.dtype = x.dtype()});
  if (y.elements() == 0) return y;
  Product product{.a = x,
                  .b = weight,
                  .out = y,
                  .transpose_b = true,
                  .epilogue = forward_epilogue(bias.defined(), relu),
                  .bias = bias};
  if (try_multiply(product)) return y;
  product.epilogue = ProductEpilogue::none;
  product.bias = Tensor();
  multiply(product);
  if (bias.defined()) add_bias(y, bias, relu);
  return relu && !bias.defined() ? relu_forward(y) : y;
}

Tensor linear_backward_data(const Tensor& weight, const Tensor& output_gradient, const Tensor& sum) {
  const bool adds = sum.defined();
  Tensor gradient = adds ? sum
                         : Tensor::empty(weight.device(), {output_gradient.shape()[0], weight.shape()[1]},
                                         {.dtype = output_gradient.dtype()});
  if (gradient.elements() > 0) multiply({.a = output_gradient, .b = weight, .out = gradient, .accumulate = adds});
  return gradient;
}

void linear_backward_weights(const Tensor& x, const Tensor& output_gradient, const LinearWeightGradients& gradients) {
  if (x.shape()[0] == 0) {
    if (!gradients.accumulate_weight) gradients.weight.fill_zero();
    if (gradients.bias.defined() && !gradients.accumulate_bias) gradients.bias.fill_zero();
    return;
  }
  Product product{.a = output_gradient,
                  .b = x,
                  .out = gradients.weight,
                  .transpose_a = true,
                  .accumulate = gradients.accumulate_weight,
                  .epilogue = ProductEpilogue::bias_gradient,
                  .bias = gradients.bias};
  // The epilogue writes the bias's gradient, it can't add; and not every type has it.
  if (gradients.bias.defined() && !gradients.accumulate_bias && fills_gpu_unsplit(product) && try_multiply(product))
    return;
  product.epilogue = ProductEpilogue::none;
  product.bias = Tensor();
  multiply(product);
  if (gradients.bias.defined()) bias_gradient(output_gradient, gradients.bias, gradients.accumulate_bias);
}

}  // namespace dptrain::ops::cuda
