#include "ops/elementwise_cpu.h"

#include "device/parallel_for.h"
#include "ops/elementwise_kernels.h"

namespace dptrain::ops::cpu {
namespace {

/// Calls body(begin, count) for parts of `where`'s storage.
template <class Body>
void for_parts(const Tensor& where, const Body& body) {
  // Elements below which another thread costs more than it brings.
  constexpr int64_t kGrain = 16384;
  parallel_ranges(where.device(), where.storage_elements(), kGrain,
                  [&](int64_t begin, int64_t end) { body(begin, end - begin); });
}

}  // namespace

void add(const Tensor& a, const Tensor& b, const Tensor& out) {
  for_parts(out, [&](int64_t at, int64_t count) {
    elementwise_kernels().add(a.data<float>() + at, b.data<float>() + at, out.data<float>() + at, count);
  });
}

void add_into(const Tensor& to, const Tensor& from) {
  for_parts(to, [&](int64_t at, int64_t count) {
    elementwise_kernels().add_into(to.data<float>() + at, from.data<float>() + at, count);
  });
}

void relu_forward(const Tensor& x, const Tensor& y) {
  for_parts(y, [&](int64_t at, int64_t count) {
    elementwise_kernels().relu(x.data<float>() + at, y.data<float>() + at, count);
  });
}

void relu_backward(const Tensor& y, const Tensor& incoming, const Tensor& gradient) {
  for_parts(gradient, [&](int64_t at, int64_t count) {
    elementwise_kernels().relu_backward(y.data<float>() + at, incoming.data<float>() + at, gradient.data<float>() + at,
                                        count);
  });
}

void gelu_forward(const Tensor& x, const Tensor& y) {
  for_parts(y, [&](int64_t at, int64_t count) {
    elementwise_kernels().gelu(x.data<float>() + at, y.data<float>() + at, count);
  });
}

void gelu_backward(const Tensor& x, const Tensor& incoming, const Tensor& gradient) {
  for_parts(gradient, [&](int64_t at, int64_t count) {
    elementwise_kernels().gelu_backward(x.data<float>() + at, incoming.data<float>() + at, gradient.data<float>() + at,
                                        count);
  });
}

void tanh_forward(const Tensor& x, const Tensor& y) {
  for_parts(y, [&](int64_t at, int64_t count) {
    elementwise_kernels().tanh(x.data<float>() + at, y.data<float>() + at, count);
  });
}

void tanh_backward(const Tensor& y, const Tensor& incoming, const Tensor& gradient) {
  for_parts(gradient, [&](int64_t at, int64_t count) {
    elementwise_kernels().tanh_backward(y.data<float>() + at, incoming.data<float>() + at, gradient.data<float>() + at,
                                        count);
  });
}

void masked_scale(const Tensor& x, const Tensor& mask, float scale, const Tensor& out) {
  for_parts(out, [&](int64_t at, int64_t count) {
    elementwise_kernels().masked_scale(x.data<float>() + at, mask.data<uint8_t>() + at, scale, out.data<float>() + at,
                                       count);
  });
}

void approach(const Tensor& to, const Tensor& from, float share) {
  for_parts(to, [&](int64_t at, int64_t count) {
    elementwise_kernels().approach(to.data<float>() + at, from.data<float>() + at, share, count);
  });
}

}  // namespace dptrain::ops::cpu
