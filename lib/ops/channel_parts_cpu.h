#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

struct ChannelRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
};

/// `channels` in parts of whole blocks, as equal as blocks allow, each of at most `most` channels or of one block.
std::vector<ChannelRange> channel_parts(int64_t channels, int64_t block, int64_t most);

/// A copy of these channels of images in blocks, which `range` begins with: workspace in the same layout.
Tensor channels_of(const Tensor& images, const ChannelRange& range);

/// The other way: `part` becomes these channels of `images`.
void put_channels(const Tensor& part, const ChannelRange& range, const Tensor& images);

}  // namespace dptrain::ops::cpu
