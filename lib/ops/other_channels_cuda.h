#pragma once

#include "ops/channel_rows_cuda.h"

namespace dptrain::ops::cuda {

/// Images that a walk reads besides its own, with as many rows but maybe fewer or more channels. The first channels of
/// both belong together.
template <class T>
struct OtherChannels {
  const T* x = nullptr;  ///< null: none
  int64_t channels = 0;
  bool in_packs = false;  ///< if channels differ: whether packs of the walk are packs here

  /// For a walk `m` by packs of `pack`. `tensor` is in nhwc and can be read by such packs, or is undefined.
  OtherChannels(const Tensor& tensor, const ChannelRows& m, int pack) {
    if (!tensor.defined()) return;
    x = tensor.data<T>();
    channels = tensor.shape()[1];
    in_packs = m.fold == 1 && channels % pack == 0;
  }

  /// Loads the elements that belong to V columns of the walk from `column` on. Channels that don't exist are zeros.
  template <int V>
  __device__ Pack<T, V> load(const ChannelRows& m, int64_t row, int64_t column) const {
    if (channels == m.channels) return Pack<T, V>::load(x + row * m.columns + column);
    Pack<T, V> pack = {};
    if (in_packs) {
      if (column < channels) pack = Pack<T, V>::load(x + row * channels + column);
      return pack;
    }
    const T* pixel = x + (row * m.fold + (m.fold > 1 ? column / m.channels : 0)) * channels;
    m.for_each_channel<V>(column, [&](int i, int64_t channel) {
      if (i > 0 && channel == 0) pixel += channels;
      if (channel < channels) pack.at[i] = pixel[channel];
    });
    return pack;
  }
};

}  // namespace dptrain::ops::cuda
