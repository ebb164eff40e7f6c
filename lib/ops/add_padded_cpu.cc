#include "ops/add_padded_cpu.h"

#include <algorithm>

#include "device/parallel_for.h"
#include "ops/channel_prefixes.h"
#include "ops/elementwise_kernels.h"

namespace dptrain::ops::cpu {
namespace {

/// Elements below which another thread costs more than it brings.
constexpr int64_t kGrain = 16384;

/// Zeroes the lanes of the sample's last block that have no channel.
void clear_padding(const Tensor& x, float* sample) {
  const int64_t block = layout_block(x.layout()), channels = x.shape()[1];
  if (channels % block == 0) return;
  const int64_t positions = x.shape()[2] * x.shape()[3];
  float* last = sample + channels / block * positions * block;
  for (int64_t p = 0; p < positions; ++p) std::fill(last + p * block + channels % block, last + (p + 1) * block, 0.f);
}

}  // namespace

void add_padded(const Tensor& y, const Tensor& x, const Tensor& sum) {
  const ChannelPrefixes prefixes(x, y);
  parallel_ranges(y.device(), prefixes.runs, std::max(int64_t{1}, kGrain / prefixes.whole),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t run = begin; run < end; ++run) {
                      const float* from = y.data<float>() + run * prefixes.whole;
                      float* to = sum.data<float>() + run * prefixes.whole;
                      elementwise_kernels().add(from, x.data<float>() + run * prefixes.part, to, prefixes.part);
                      std::copy(from + prefixes.part, from + prefixes.whole, to + prefixes.part);
                    }
                  });
}

void first_channels(const Tensor& y, const Tensor& x) {
  const ChannelPrefixes prefixes(x, y);
  parallel_ranges(y.device(), prefixes.runs, std::max(int64_t{1}, kGrain / prefixes.whole),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t run = begin; run < end; ++run) {
                      const float* from = y.data<float>() + run * prefixes.whole;
                      float* to = x.data<float>() + run * prefixes.part;
                      std::copy(from, from + prefixes.part, to);
                      clear_padding(x, to);
                    }
                  });
}

}  // namespace dptrain::ops::cpu
