#pragma once

#include <cmath>

#include "ops/attention_tile_cuda.h"

// What the host functions of attention_fused_*_cuda.cu share. For .cu files only.

namespace dptrain::ops::cuda {

/// Calls f.operator()<T, Tile>() for the tensor's element type and the narrowest tiles that hold a head of `width`.
template <class F>
void with_attention_tile(const Tensor& tensor, int64_t width, const F& f) {
  const auto with_width = [&]<class T>() {
    if (width <= 16)
      f.template operator()<T, AttentionTile<16>>();
    else if (width <= 32)
      f.template operator()<T, AttentionTile<32>>();
    else if (width <= 64)
      f.template operator()<T, AttentionTile<64>>();
    else
      f.template operator()<T, AttentionTile<128>>();
  };
  if (tensor.dtype() == DType::bf16)
    with_width.template operator()<__nv_bfloat16>();
  else
    with_width.template operator()<__half>();
}

/// Describes the heads to a kernel. `rows`: all tensors of [N, S, H * D] that the kernel reads or writes.
inline AttentionHeads heads_of(const AttentionInputs& in, const AttentionOptions& options,
                               std::initializer_list<const void*> rows) {
  const Shape& shape = in.query.shape();
  const int64_t width = shape[2] / options.heads;
  return {.heads = static_cast<int>(options.heads),
          .positions = static_cast<int>(shape[1]),
          .width = static_cast<int>(width),
          .columns = shape[2],
          .lengths = data_or_null<int32_t>(in.lengths),
          .scale = 1.f / std::sqrt(static_cast<float>(width)),
          .packs = in_packs(width, 8, rows),
          .dropout = AttentionDropout::of(options)};
}

/// Launches a kernel in which each block takes `rows` rows of one head.
template <class Tile, class... Parameters, class... Arguments>
void launch_heads(const char* name, const Tensor& query, int rows, void (*kernel)(AttentionHeads, Parameters...),
                  const AttentionHeads& heads, Arguments... arguments) {
  const int64_t blocks = (heads.positions + rows - 1) / rows * (query.shape()[0] * heads.heads);
  launch(name, query, dim3(static_cast<unsigned>(blocks)), dim3(32, Tile::kWarps), kernel, heads, arguments...);
}

}  // namespace dptrain::ops::cuda
