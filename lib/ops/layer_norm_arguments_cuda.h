#pragma once

#include "ops/cuda_kernels.h"
#include "ops/layer_norm.h"

// The arguments of the kernels in layer_norm_cuda.cu and layer_norm_rows_cuda.cu. For .cu files only.

namespace dptrain::ops::cuda {

template <class T>
struct LayerNormForwardArguments {
  const T *x, *residual;  ///< null: no residual
  const uint8_t* mask;    ///< null: no dropout
  float scale;            ///< factor of what dropout keeps
  const float *gamma, *beta;
  float epsilon;
  T *sum, *y;  ///< `sum` is written only with a residual
  float *mean, *inverse_deviation;

  LayerNormForwardArguments(const LayerNormInputs& in, float of_epsilon, const LayerNormForward& forward)
      : x(in.x.data<T>()),
        residual(data_or_null<T>(in.residual)),
        mask(data_or_null<uint8_t>(forward.mask)),
        scale(dropout_scale(forward.dropout)),
        gamma(in.gamma.data<float>()),
        beta(in.beta.data<float>()),
        epsilon(of_epsilon),
        sum(forward.sum.data<T>()),
        y(forward.y.data<T>()),
        mean(forward.mean.data<float>()),
        inverse_deviation(forward.inverse_deviation.data<float>()) {}
};

template <class T>
struct LayerNormBackwardArguments {
  const T* x;                  ///< what was normalized
  const T *incoming, *second;  ///< `second` is null if there is only one
  const uint8_t* mask;         ///< null: no dropout
  float scale;
  const float *gamma, *mean, *inverse_deviation;
  T *of_sum, *of_x;  ///< `of_x` is written only with dropout

  LayerNormBackwardArguments(const LayerNormForward& forward, const Tensor& of_gamma, const SummedGradient& gradient,
                             const LayerNormInputGradients& of)
      : x(forward.sum.data<T>()),
        incoming(gradient.first.data<T>()),
        second(data_or_null<T>(gradient.second)),
        mask(data_or_null<uint8_t>(forward.mask)),
        scale(dropout_scale(forward.dropout)),
        gamma(of_gamma.data<float>()),
        mean(forward.mean.data<float>()),
        inverse_deviation(forward.inverse_deviation.data<float>()),
        of_sum(of.residual.data<T>()),
        of_x(of.x.data<T>()) {}
};

}  // namespace dptrain::ops::cuda
