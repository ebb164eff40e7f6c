#include "ops/activation_functions_cuda.h"
#include "ops/cuda_kernels.h"
#include "ops/elementwise_cuda.h"

// Bound by memory: for each element of the result, add and the backward functions move 3 elements, the forward
// functions 2, and masked_scale 2 and a byte.

namespace dptrain::ops::cuda {
namespace {

/// out[i] = op(a[i], b[i]), by packs of V.
template <int V, class A, class B, class T, class Op>
__global__ void map_kernel(int64_t packs, const A* a, const B* b, T* out, Op op) {
  for (int64_t pack = global_thread(); pack < packs; pack += global_threads()) {
    const auto x = Pack<A, V>::load(a + pack * V);
    const auto y = Pack<B, V>::load(b + pack * V);
    Pack<T, V> result;
    for (int i = 0; i < V; ++i) result.at[i] = op(x.at[i], y.at[i]);
    result.store(out + pack * V);
  }
}

template <class A, class B, class T, class Op>
void map(const char* name, const Tensor& where, const A* a, const B* b, T* out, const Op& op) {
  const int64_t count = where.storage_elements();
  if (count == 0) return;
  constexpr int kPack = kPackOf<T>;
  if (in_packs(count, kPack, {a, b, out}))
    launch(name, where, blocks_for(where, count / kPack), kThreads, map_kernel<kPack, A, B, T, Op>, count / kPack, a, b,
           out, op);
  else
    launch(name, where, blocks_for(where, count), kThreads, map_kernel<1, A, B, T, Op>, count, a, b, out, op);
}

template <class T>
struct Sum {
  __device__ T operator()(T a, T b) const { return from_float<T>(to_float(a) + to_float(b)); }
};
template <class T>
struct Positive {
  __device__ T operator()(T x, T) const { return to_float(x) <= 0.f ? from_float<T>(0.f) : x; }
};
template <class T>
struct WherePositive {
  __device__ T operator()(T y, T incoming) const { return to_float(y) > 0.f ? incoming : from_float<T>(0.f); }
};
template <class T>
struct Gelu {
  __device__ T operator()(T x, T) const { return from_float<T>(gelu_of(to_float(x))); }
};
template <class T>
struct GeluSlope {
  __device__ T operator()(T x, T incoming) const {
    return from_float<T>(to_float(incoming) * gelu_slope_of(to_float(x)));
  }
};
template <class T>
struct Tanh {
  __device__ T operator()(T x, T) const { return from_float<T>(tanhf(to_float(x))); }
};
template <class T>
struct TanhSlope {
  __device__ T operator()(T y, T incoming) const {
    return from_float<T>(to_float(incoming) * (1.f - to_float(y) * to_float(y)));
  }
};
template <class T>
struct Sigmoid {
  __device__ T operator()(T x, T) const { return from_float<T>(sigmoid_at(to_float(x)).value); }
};
template <class T>
struct SigmoidSlope {
  __device__ T operator()(T y, T incoming) const {
    return from_float<T>(to_float(incoming) * (to_float(y) * (1.f - to_float(y))));
  }
};
template <class T>
struct Silu {
  __device__ T operator()(T x, T) const { return from_float<T>(to_float(x) * sigmoid_at(to_float(x)).value); }
};
template <class T>
struct SiluSlope {
  __device__ T operator()(T x, T incoming) const {
    return from_float<T>(to_float(incoming) * silu_slope_of(to_float(x)));
  }
};
template <class T>
struct Leaky {
  float slope;
  __device__ T operator()(T x, T) const { return to_float(x) > 0.f ? x : from_float<T>(slope * to_float(x)); }
};
template <class T>
struct LeakySlope {
  float slope;
  __device__ T operator()(T y, T incoming) const {
    return to_float(y) > 0.f ? incoming : from_float<T>(slope * to_float(incoming));
  }
};
template <class T>
struct MaskedScale {
  float scale;
  __device__ T operator()(T x, uint8_t mask) const { return from_float<T>(mask != 0 ? to_float(x) * scale : 0.f); }
};
struct Approach {
  float share;
  __device__ float operator()(float to, float from) const { return fmaf(share, from - to, to); }
};

/// Maps tensors of one type by Op<T>. `numbers` initialize the operation.
template <template <class> class Op, class... Numbers>
void map_alike(const char* name, const Tensor& a, const Tensor& b, const Tensor& out, Numbers... numbers) {
  with_element_type(out, [&]<class T>(ElementType<T>) {
    map(name, out, a.data<T>(), b.data<T>(), out.data<T>(), Op<T>{numbers...});
  });
}

}  // namespace

void add(const Tensor& a, const Tensor& b, const Tensor& out) { map_alike<Sum>("add", a, b, out); }

void add_into(const Tensor& to, const Tensor& from) { map_alike<Sum>("add_into", to, from, to); }

void activation_forward(const Activation& activation, const Tensor& x, const Tensor& y) {
  switch (activation.kind) {
    case ActivationKind::relu: return map_alike<Positive>("relu", x, x, y);
    case ActivationKind::gelu: return map_alike<Gelu>("gelu", x, x, y);
    case ActivationKind::tanh: return map_alike<Tanh>("tanh", x, x, y);
    case ActivationKind::sigmoid: return map_alike<Sigmoid>("sigmoid", x, x, y);
    case ActivationKind::silu: return map_alike<Silu>("silu", x, x, y);
    case ActivationKind::leaky_relu: return map_alike<Leaky>("leaky_relu", x, x, y, activation.slope);
  }
}

void activation_backward(const Activation& activation, const Tensor& kept, const Tensor& incoming,
                         const Tensor& gradient) {
  switch (activation.kind) {
    case ActivationKind::relu: return map_alike<WherePositive>("relu backward", kept, incoming, gradient);
    case ActivationKind::gelu: return map_alike<GeluSlope>("gelu backward", kept, incoming, gradient);
    case ActivationKind::tanh: return map_alike<TanhSlope>("tanh backward", kept, incoming, gradient);
    case ActivationKind::sigmoid: return map_alike<SigmoidSlope>("sigmoid backward", kept, incoming, gradient);
    case ActivationKind::silu: return map_alike<SiluSlope>("silu backward", kept, incoming, gradient);
    case ActivationKind::leaky_relu:
      return map_alike<LeakySlope>("leaky_relu backward", kept, incoming, gradient, activation.slope);
  }
}

void masked_scale(const Tensor& x, const Tensor& mask, float scale, const Tensor& out) {
  with_element_type(out, [&]<class T>(ElementType<T>) {
    map("masked_scale", out, x.data<T>(), mask.data<uint8_t>(), out.data<T>(), MaskedScale<T>{scale});
  });
}

void approach(const Tensor& to, const Tensor& from, float share) {
  map("approach", to, to.data<float>(), from.data<float>(), to.data<float>(), Approach{share});
}

}  // namespace dptrain::ops::cuda
