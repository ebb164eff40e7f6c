#include <algorithm>

#include "ops/f32_pieces.h"
#include "ops/image_offsets.h"
#include "ops/pool2d_cpu.h"

namespace dptrain::ops::cpu {
namespace {

int64_t sample_elements(const Tensor& x) { return x.shape()[0] > 0 ? x.storage_elements() / x.shape()[0] : 0; }

}  // namespace

Tensor global_average_pool_forward(const Tensor& x) {
  const int64_t samples = x.shape()[0], channels = x.shape()[1], positions = x.shape()[2] * x.shape()[3];
  Tensor y = Tensor::empty(x.device(), {samples, channels}, {.dtype = x.dtype()});
  const ImageOffsets offset(x);
  const int64_t elements = sample_elements(x);
  for_each_unit(x, samples, elements + channels, [&](int64_t n, Pieces& pieces) {
    const float* in = pieces.read(x, n * elements, elements);
    float* out = pieces.write(y, n * channels, channels);
    for (int64_t c = 0; c < channels; ++c) {
      const float* first = in + offset(0, c, 0);
      float sum = 0;
      for (int64_t p = 0; p < positions; ++p) sum += first[p * offset.position_stride()];
      out[c] = sum / static_cast<float>(positions);
    }
  });
  return y;
}

Tensor global_average_pool_backward(const TensorForm& x, const Tensor& output_gradient) {
  const int64_t samples = x.shape[0], channels = x.shape[1], positions = x.shape[2] * x.shape[3];
  Tensor gradient = x.empty();
  const ImageOffsets offset(gradient);
  const int64_t elements = sample_elements(gradient);
  for_each_unit(gradient, samples, elements + channels, [&](int64_t n, Pieces& pieces) {
    const float* incoming = pieces.read(output_gradient, n * channels, channels);
    float* out = pieces.write(gradient, n * elements, elements);
    std::fill(out, out + elements, 0.f);  // for the padded lanes of blocked layouts
    for (int64_t c = 0; c < channels; ++c) {
      const float share = incoming[c] / static_cast<float>(positions);
      float* first = out + offset(0, c, 0);
      for (int64_t p = 0; p < positions; ++p) first[p * offset.position_stride()] = share;
    }
  });
  return gradient;
}

}  // namespace dptrain::ops::cpu
