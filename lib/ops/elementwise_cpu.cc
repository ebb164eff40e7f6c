#include "ops/elementwise_cpu.h"

#include <cstring>

#include "ops/elementwise_kernels.h"
#include "ops/f32_pieces.h"

namespace dptrain::ops::cpu {
namespace {

/// out = kernel(inputs...), element by element.
template <class Kernel, class... Inputs>
void map(const Kernel& kernel, const Tensor& out, const Inputs&... inputs) {
  for_each_piece(out, 1 + sizeof...(inputs), [&](int64_t at, int64_t count, Pieces& pieces) {
    kernel(pieces.read(inputs, at, count)..., pieces.write(out, at, count), count);
  });
}

const ActivationKernels& kernels_of(const Activation& activation) {
  return elementwise_kernels().activations[static_cast<size_t>(activation.kind)];
}

/// Zeroes the lanes without a channel in blocked layouts.
void zero_padding(const Tensor& images) {
  const int64_t lanes = layout_block(images.layout());
  if (lanes == 1 || images.shape()[1] % lanes == 0) return;
  const int64_t element = dtype_bytes(images.dtype()), filled = images.shape()[1] % lanes;
  const int64_t positions = images.shape()[2] * images.shape()[3], blocks = images.shape()[1] / lanes + 1;
  parallel_parts(images.device(), images.shape()[0], 1, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t sample = begin; sample < end; ++sample)
      for (int64_t position = 0; position < positions; ++position) {
        const int64_t pixel = ((sample + 1) * blocks - 1) * positions + position;
        std::memset(images.raw() + (pixel * lanes + filled) * element, 0,
                    static_cast<size_t>((lanes - filled) * element));
      }
  });
}

}  // namespace

void add(const Tensor& a, const Tensor& b, const Tensor& out) { map(elementwise_kernels().add, out, a, b); }

void add_into(const Tensor& to, const Tensor& from) {
  for_each_piece(to, 2, [&](int64_t at, int64_t count, Pieces& pieces) {
    elementwise_kernels().add_into(pieces.update(to, at, count), pieces.read(from, at, count), count);
  });
}

void activation_forward(const Activation& activation, const Tensor& x, const Tensor& y) {
  for_each_piece(y, 2, [&](int64_t at, int64_t count, Pieces& pieces) {
    kernels_of(activation).forward(pieces.read(x, at, count), pieces.write(y, at, count), count, activation.slope);
  });
  // Sigmoid is the only activation that isn't 0 at 0, so the padding must be zeroed again.
  if (activation.kind == ActivationKind::sigmoid) zero_padding(y);
}

void activation_backward(const Activation& activation, const Tensor& kept, const Tensor& incoming,
                         const Tensor& gradient) {
  for_each_piece(gradient, 3, [&](int64_t at, int64_t count, Pieces& pieces) {
    kernels_of(activation)
        .backward(pieces.read(kept, at, count), pieces.read(incoming, at, count), pieces.write(gradient, at, count),
                  count, activation.slope);
  });
}

void masked_scale(const Tensor& x, const Tensor& mask, float scale, const Tensor& out) {
  for_each_piece(out, 2, [&](int64_t at, int64_t count, Pieces& pieces) {
    elementwise_kernels().masked_scale(pieces.read(x, at, count), mask.data<uint8_t>() + at, scale,
                                       pieces.write(out, at, count), count);
  });
}

void approach(const Tensor& to, const Tensor& from, float share) {
  for_each_piece(to, 2, [&](int64_t at, int64_t count, Pieces& pieces) {
    elementwise_kernels().approach(pieces.update(to, at, count), pieces.read(from, at, count), share, count);
  });
}

}  // namespace dptrain::ops::cpu
