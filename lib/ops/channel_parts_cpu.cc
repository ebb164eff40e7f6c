#include "ops/channel_parts_cpu.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/parallel_for.h"

namespace dptrain::ops::cpu {
namespace {

/// Where a range of channels lies: as one run in each sample.
struct Runs {
  Runs(const Tensor& images, const Tensor& part, const ChannelRange& range) {
    const int64_t block = layout_block(images.layout());
    DPTRAIN_CHECK(block > 1 && range.begin % block == 0 && part.shape()[1] == range.count(),
                  "channels {} to {} of {} in {}", range.begin, range.end, images.text(), part.text());
    samples = images.shape()[0];
    if (samples == 0) return;
    bytes = part.bytes() / samples;
    stride = images.bytes() / samples;
    first = images.raw() + range.begin / block * (bytes / ((range.count() + block - 1) / block));
  }

  int64_t samples = 0, bytes = 0, stride = 0;
  std::byte* first = nullptr;
};

/// Bytes below which another thread costs more than it brings.
constexpr int64_t kGrain = 65536;

template <class Copy>
void for_samples(const Tensor& images, const Runs& runs, const Copy& copy) {
  if (runs.samples == 0) return;
  parallel_ranges(images.device(), runs.samples, std::max(int64_t{1}, kGrain / runs.bytes),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t n = begin; n < end; ++n) copy(n);
                  });
}

}  // namespace

std::vector<ChannelRange> channel_parts(int64_t channels, int64_t block, int64_t most) {
  const int64_t blocks = (channels + block - 1) / block, most_blocks = std::max(int64_t{1}, most / block);
  const int64_t parts = (blocks + most_blocks - 1) / most_blocks;
  std::vector<ChannelRange> ranges;
  for (int64_t part = 0; part < parts; ++part)
    ranges.push_back(
        {.begin = part * blocks / parts * block, .end = std::min(channels, (part + 1) * blocks / parts * block)});
  return ranges;
}

Tensor channels_of(const Tensor& images, const ChannelRange& range) {
  const Shape& shape = images.shape();
  Tensor part =
      Tensor::empty(images.device(), {shape[0], range.count(), shape[2], shape[3]},
                    {.dtype = images.dtype(), .layout = images.layout(), .purpose = MemoryPurpose::workspace});
  const Runs runs(images, part, range);
  for_samples(images, runs, [&](int64_t n) {
    std::memcpy(part.raw() + n * runs.bytes, runs.first + n * runs.stride, static_cast<size_t>(runs.bytes));
  });
  return part;
}

void put_channels(const Tensor& part, const ChannelRange& range, const Tensor& images) {
  const Runs runs(images, part, range);
  for_samples(images, runs, [&](int64_t n) {
    std::memcpy(runs.first + n * runs.stride, part.raw() + n * runs.bytes, static_cast<size_t>(runs.bytes));
  });
}

}  // namespace dptrain::ops::cpu
