#include "ops/elementwise_cpu.h"

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

}  // namespace

void add(const Tensor& a, const Tensor& b, const Tensor& out) { map(elementwise_kernels().add, out, a, b); }

void add_into(const Tensor& to, const Tensor& from) {
  for_each_piece(to, 2, [&](int64_t at, int64_t count, Pieces& pieces) {
    elementwise_kernels().add_into(pieces.update(to, at, count), pieces.read(from, at, count), count);
  });
}

void relu_forward(const Tensor& x, const Tensor& y) { map(elementwise_kernels().relu, y, x); }

void relu_backward(const Tensor& y, const Tensor& incoming, const Tensor& gradient) {
  map(elementwise_kernels().relu_backward, gradient, y, incoming);
}

void gelu_forward(const Tensor& x, const Tensor& y) { map(elementwise_kernels().gelu, y, x); }

void gelu_backward(const Tensor& x, const Tensor& incoming, const Tensor& gradient) {
  map(elementwise_kernels().gelu_backward, gradient, x, incoming);
}

void tanh_forward(const Tensor& x, const Tensor& y) { map(elementwise_kernels().tanh, y, x); }

void tanh_backward(const Tensor& y, const Tensor& incoming, const Tensor& gradient) {
  map(elementwise_kernels().tanh_backward, gradient, y, incoming);
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
