#include "ops/linear_cuda.h"

#include "ops/activation.h"
#include "ops/bias_cuda.h"
#include "ops/cublaslt_product_cuda.h"

namespace dptrain::ops::cuda {
namespace {

ProductEpilogue forward_epilogue(bool bias, bool relu) {
  if (bias) return relu ? ProductEpilogue::bias_relu : ProductEpilogue::bias;
  return relu ? ProductEpilogue::relu : ProductEpilogue::none;
}

/// The most rows whose columns the epilogue sums. With the epilogue the product can't be split among multiprocessors,
/// and newer kernels don't have it. So for longer sums a separate pass over `a` costs less.
constexpr int64_t kShortSum = 2048;

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
  return relu && !bias.defined() ? activation_forward(kRelu, y) : y;
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
  // The epilogue can only write the bias's gradient, not add to it, and not every type has the epilogue.
  const bool in_epilogue = gradients.bias.defined() && !gradients.accumulate_bias && x.shape()[0] <= kShortSum;
  if (in_epilogue && try_multiply(product)) return;
  product.epilogue = ProductEpilogue::none;
  product.bias = Tensor();
  multiply(product);
  if (gradients.bias.defined()) bias_gradient(output_gradient, gradients.bias, gradients.accumulate_bias);
}

}  // namespace dptrain::ops::cuda
