#pragma once

#include "ops/channel_rows_cuda.h"

namespace dptrain::ops::cuda {

/// Images beside those of a walk, of as many rows and maybe of fewer or more channels: the first ones of both meet.
template <class T>
struct OtherChannels {
  const T* x = nullptr;  ///< null: none
  int64_t channels = 0;
  bool in_packs = false;  ///< of other channels: V of the walk from a multiple of V on are V of these

  /// For a walk by packs of `pack`, which are loads that `tensor`, in nhwc or undefined, takes.
  OtherChannels(const Tensor& tensor, const ChannelRows& m, int pack) {
    if (!tensor.defined()) return;
    x = tensor.data<T>();
    channels = tensor.shape()[1];
    in_packs = m.fold == 1 && channels % pack == 0;
  }

  /// What lies beside V columns of the walk from `column` on: zeros where there is no channel.
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
