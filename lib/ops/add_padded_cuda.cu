#include "ops/add_padded_cuda.h"
#include "ops/channel_prefixes.h"
#include "ops/cuda_kernels.h"

// Bound by memory: each element is read and written once, by packs of V.

namespace dptrain::ops::cuda {
namespace {

/// `part` and `whole` are counted in packs.
template <class T, int V>
__global__ void add_padded_kernel(const T* y, const T* x, T* sum, int64_t runs, int64_t part, int64_t whole) {
  for (int64_t pack = global_thread(); pack < runs * whole; pack += global_threads()) {
    auto value = Pack<T, V>::load(y + pack * V);
    const int64_t run = pack / whole, place = pack - run * whole;
    if (place < part) {
      const auto added = Pack<T, V>::load(x + (run * part + place) * V);
      for (int v = 0; v < V; ++v) value.set(v, value.get(v) + added.get(v));
    }
    value.store(sum + pack * V);
  }
}

template <class T, int V>
__global__ void first_channels_kernel(const T* y, T* x, int64_t runs, int64_t part, int64_t whole) {
  for (int64_t pack = global_thread(); pack < runs * part; pack += global_threads()) {
    const int64_t run = pack / part, place = pack - run * part;
    Pack<T, V>::load(y + (run * whole + place) * V).store(x + pack * V);
  }
}

/// Calls launch_with<T, V> with the widest packs that divide all runs.
template <class LaunchWith>
void with_packs(const Tensor& x, const ChannelPrefixes& prefixes, std::initializer_list<const void*> pointers,
                const LaunchWith& launch_with) {
  with_element_type(x, [&]<class T>(ElementType<T>) {
    constexpr int kPack = kPackOf<T>;
    if (in_packs(prefixes.part, kPack, pointers) && prefixes.whole % kPack == 0)
      launch_with.template operator()<T, kPack>();
    else
      launch_with.template operator()<T, 1>();
  });
}

}  // namespace

void add_padded(const Tensor& y, const Tensor& x, const Tensor& sum) {
  const ChannelPrefixes p(x, y);
  with_packs(x, p, {y.raw(), x.raw(), sum.raw()}, [&]<class T, int V>() {
    launch("add_padded", y, blocks_for(y, p.runs * p.whole / V), kThreads, add_padded_kernel<T, V>, y.data<T>(),
           x.data<T>(), sum.data<T>(), p.runs, p.part / V, p.whole / V);
  });
}

void first_channels(const Tensor& y, const Tensor& x) {
  const ChannelPrefixes p(x, y);
  with_packs(x, p, {y.raw(), x.raw()}, [&]<class T, int V>() {
    launch("first_channels", y, blocks_for(x, p.runs * p.part / V), kThreads, first_channels_kernel<T, V>, y.data<T>(),
           x.data<T>(), p.runs, p.part / V, p.whole / V);
  });
}

}  // namespace dptrain::ops::cuda
