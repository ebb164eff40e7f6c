#pragma once

#include <cstdint>

namespace dptrain::ops {

struct SgdNumbers {
  float learning_rate, momentum, weight_decay;
  bool nesterov;
};

struct AdamNumbers {
  float step_size;                         ///< learning rate / (1 - beta1^step)
  float second_factor;                     ///< 1 / sqrt(1 - beta2^step)
  float beta2, first_share, second_share;  ///< the shares are 1 - beta
  float epsilon;
  float weight_decay;  ///< that joins the gradient
  float kept;          ///< of a weight, where decay is decoupled
};

/// Kernels over `count` floats that lie one after the other. They run on the calling thread.
struct ElementwiseKernels {
  void (*add)(const float* a, const float* b, float* out, int64_t count);
  /// to += from
  void (*add_into)(float* to, const float* from, int64_t count);
  void (*relu)(const float* x, float* y, int64_t count);
  /// The incoming gradient where y > 0, else 0.
  void (*relu_backward)(const float* y, const float* incoming, float* out, int64_t count);
  /// x * (1 + erf(x / sqrt 2)) / 2, and the incoming gradient times its slope at x.
  void (*gelu)(const float* x, float* y, int64_t count);
  void (*gelu_backward)(const float* x, const float* incoming, float* out, int64_t count);
  void (*tanh)(const float* x, float* y, int64_t count);
  /// The incoming gradient times 1 - y^2.
  void (*tanh_backward)(const float* y, const float* incoming, float* out, int64_t count);
  /// out = x * (mask ? scale : 0)
  void (*masked_scale)(const float* x, const uint8_t* mask, float scale, float* out, int64_t count);
  /// x *= factor
  void (*scale)(float* x, float factor, int64_t count);
  /// to += share * (from - to)
  void (*approach)(float* to, const float* from, float share, int64_t count);
  /// The sum of squares, in double.
  double (*sum_of_squares)(const float* x, int64_t count);
  void (*fill)(float* to, float value, int64_t count);
  void (*sgd)(float* weight, const float* gradient, int64_t count, const SgdNumbers& numbers);
  void (*sgd_momentum)(float* weight, const float* gradient, float* velocity, int64_t count, const SgdNumbers& numbers);
  void (*adam)(float* weight, const float* gradient, float* first, float* second, int64_t count,
               const AdamNumbers& numbers);
};

const ElementwiseKernels& elementwise_kernels();

}  // namespace dptrain::ops
