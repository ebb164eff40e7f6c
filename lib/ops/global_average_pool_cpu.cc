#include "device/parallel_for.h"
#include "ops/image_offsets.h"
#include "ops/pool2d_cpu.h"

namespace dptrain::ops::cpu {

Tensor global_average_pool_forward(const Tensor& x) {
  const int64_t samples = x.shape()[0], channels = x.shape()[1], positions = x.shape()[2] * x.shape()[3];
  Tensor y = Tensor::empty(x.device(), {samples, channels});
  const ImageOffsets offset(x);
  const float* in = x.data<float>();
  float* out = y.data<float>();
  parallel_for(x.device(), samples, [&](int64_t n) {
    for (int64_t c = 0; c < channels; ++c) {
      const float* first = in + offset(n, c, 0);
      float sum = 0;
      for (int64_t p = 0; p < positions; ++p) sum += first[p * offset.position_stride()];
      out[n * channels + c] = sum / static_cast<float>(positions);
    }
  });
  return y;
}

Tensor global_average_pool_backward(const TensorForm& x, const Tensor& output_gradient) {
  const int64_t samples = x.shape[0], channels = x.shape[1], positions = x.shape[2] * x.shape[3];
  Tensor gradient = x.empty();
  gradient.fill_zero();  // the padded lanes of blocked layouts
  const ImageOffsets offset(gradient);
  const float* incoming = output_gradient.data<float>();
  float* out = gradient.data<float>();
  parallel_for(x.device, samples, [&](int64_t n) {
    for (int64_t c = 0; c < channels; ++c) {
      const float share = incoming[n * channels + c] / static_cast<float>(positions);
      float* first = out + offset(n, c, 0);
      for (int64_t p = 0; p < positions; ++p) first[p * offset.position_stride()] = share;
    }
  });
  return gradient;
}

}  // namespace dptrain::ops::cpu
