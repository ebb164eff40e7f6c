#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Whether both are shapes of equally many images of the same size, `fewer` with at most the channels of `more`.
inline bool are_first_channels(const Shape& fewer, const Shape& more) {
  return fewer.rank() == 4 && more.rank() == 4 && fewer[0] == more[0] && fewer[1] <= more[1] && fewer[2] == more[2] &&
         fewer[3] == more[3];
}

/// Where an image's elements are in an image with more channels and the same layout: each run of `part` elements is the
/// beginning of a run of `whole`. A run is the channels of one position in nhwc, and a sample in the other layouts. If
/// the last block of channels isn't full, its padding is at the end of the run.
struct ChannelPrefixes {
  ChannelPrefixes(const Tensor& fewer, const Tensor& more)
      : runs(more.layout() == Layout::nhwc ? more.shape()[0] * more.shape()[2] * more.shape()[3] : more.shape()[0]),
        part(fewer.storage_elements() / runs),
        whole(more.storage_elements() / runs) {}

  int64_t runs, part, whole;
};

}  // namespace dptrain::ops
