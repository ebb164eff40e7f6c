#include "ops/elementwise_kernels.h"

#include "ops/float_functions.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake. Only plain loops: the compiler vectorizes
// them, and no inline function of another header may end up here, compiled for instructions that the machine lacks.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

void add(const float* a, const float* b, float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

void add_into(float* __restrict to, const float* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void relu(const float* x, float* __restrict y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] > 0.f ? x[i] : 0.f;
}

void relu_backward(const float* y, const float* incoming, float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = y[i] > 0.f ? incoming[i] : 0.f;
}

void gelu(const float* x, float* __restrict y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = gelu_of(x[i]);
}

void gelu_backward(const float* x, const float* incoming, float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = incoming[i] * gelu_slope_of(x[i]);
}

void tanh(const float* x, float* __restrict y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = tanh_of(x[i]);
}

void tanh_backward(const float* y, const float* incoming, float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = incoming[i] * (1.f - y[i] * y[i]);
}

void masked_scale(const float* x, const uint8_t* mask, float scale, float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = mask[i] != 0 ? x[i] * scale : 0.f;
}

void fill(float* to, float value, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = value;
}

// PyTorch's SGD: the weight decay joins the gradient, the velocity gathers gradients undamped, and Nesterov looks
// ahead.
void sgd(float* __restrict weight, const float* __restrict gradient, int64_t count, const SgdNumbers& n) {
  const float rate = n.learning_rate, decay = n.weight_decay;
  for (int64_t i = 0; i < count; ++i) weight[i] -= rate * (gradient[i] + decay * weight[i]);
}

void sgd_momentum(float* __restrict weight, const float* __restrict gradient, float* __restrict velocity, int64_t count,
                  const SgdNumbers& n) {
  const float rate = n.learning_rate, decay = n.weight_decay, momentum = n.momentum;
  if (n.nesterov) {
    for (int64_t i = 0; i < count; ++i) {
      const float g = gradient[i] + decay * weight[i];
      velocity[i] = momentum * velocity[i] + g;
      weight[i] -= rate * (g + momentum * velocity[i]);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const float g = gradient[i] + decay * weight[i];
      velocity[i] = momentum * velocity[i] + g;
      weight[i] -= rate * velocity[i];
    }
  }
}

}  // namespace

extern const ElementwiseKernels kElementwise;
const ElementwiseKernels kElementwise = {add,  add_into,      relu,         relu_backward, gelu, gelu_backward,
                                         tanh, tanh_backward, masked_scale, fill,          sgd,  sgd_momentum};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
