#pragma once

#include <cstdint>

#include "ops/activation_kind.h"

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
  float weight_decay;  ///< the part that is added to the gradient
  float kept;          ///< factor of the weight for a decoupled decay
};

struct LambNumbers {
  float beta2, first_share, second_share;  ///< the shares are 1 - beta
  float first_factor;                      ///< 1 / (1 - beta1^step)
  float second_factor;                     ///< 1 / sqrt(1 - beta2^step)
  float epsilon;
  float weight_decay = 0;
  float rate = 0;  ///< includes the tensor's trust ratio
};

/// Kernels of an Activation; `slope` is its slope below zero.
struct ActivationKernels {
  void (*forward)(const float* x, float* y, int64_t count, float slope);
  /// out = the incoming gradient times the slope. `kept` is x or y, see ops/activation.h.
  void (*backward)(const float* kept, const float* incoming, float* out, int64_t count, float slope);
};

/// Kernels over `count` contiguous floats. They run on the calling thread.
struct ElementwiseKernels {
  void (*add)(const float* a, const float* b, float* out, int64_t count);
  /// to += from
  void (*add_into)(float* to, const float* from, int64_t count);
  ActivationKernels activations[kActivationKinds];  ///< in the order of ActivationKind
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
  /// Updates the moments with the gradients and writes the update's direction for each weight.
  void (*lamb_measure)(const float* weight, const float* gradient, float* first, float* second, float* direction,
                       int64_t count, const LambNumbers& numbers);
  /// Moves the weights along that direction.
  void (*lamb)(float* weight, const float* first, const float* second, int64_t count, const LambNumbers& numbers);
};

const ElementwiseKernels& elementwise_kernels();

}  // namespace dptrain::ops
