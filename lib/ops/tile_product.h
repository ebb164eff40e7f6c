#pragma once

#include <cstdint>

#include "device/cpu_bf16.h"
#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// A matrix of f32 or bf16, whichever of the two isn't null: a left factor of `count` rows or a right one of `count`
/// columns, each of `depth` numbers. Depth runs along the rows in memory, which are `stride` apart, or across them.
struct TileSource {
  const float* f32 = nullptr;
  const Bfloat16* bf16 = nullptr;
  int64_t count = 0, depth = 0, stride = 0;
  bool across = false;

  /// The part with counts [begin, begin + counted) and depths [from, from + deep).
  TileSource part(int64_t begin, int64_t counted, int64_t from, int64_t deep) const {
    TileSource source = *this;
    const int64_t at = across ? from * stride + begin : begin * stride + from;
    if (f32 != nullptr) source.f32 += at;
    if (bf16 != nullptr) source.bf16 += at;
    source.count = counted;
    source.depth = deep;
    return source;
  }
};

/// y = left * right + bias, with `accumulate` also + y; then max(0, y) with `relu`.
struct TileProduct {
  int64_t rows, columns, depth;
  int pieces;             ///< of each number, as both factors were packed
  const Bfloat16* left;   ///< packed
  const Bfloat16* right;  ///< packed
  const float* bias = nullptr;
  bool relu = false;
  bool accumulate = false;
  float* y = nullptr;           ///< [rows, columns], or null, where y is rounded:
  Bfloat16* rounded = nullptr;  ///< in place of y; not with `accumulate`
  int64_t y_stride;
};

/// Products of matrices by a unit that multiplies bf16 and adds in f32, on the calling thread. An element's terms are
/// added in the order of the depth, whatever rows and columns are computed with it.
///
/// For AMX a factor of f32 may be packed as three pieces: bf16 numbers that add up to it. Six products of pieces, all
/// but those under 2^-24 of the whole, are as exact as a product that is rounded to f32 (Henry, Tang and Heinecke,
/// "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", 2019), and AMX
/// computes the six in less time than AVX-512 takes for one of f32. What is infinite becomes NaN this way, and numbers
/// under 1e-33 lose their last bits.
struct TileKernels {
  /// bf16 numbers that a factor of so many rows or columns takes, packed.
  int64_t (*packed)(int64_t count, int64_t depth, int pieces);
  /// Packs a factor in one piece a number, or three of an f32.
  void (*pack_left)(const TileSource& source, int pieces, Bfloat16* to);
  void (*pack_right)(const TileSource& source, int pieces, Bfloat16* to);
  void (*multiply)(const TileProduct& product);
  /// What rows and columns are best a multiple of: each such block is packed on its own.
  int64_t block;
};

/// Those that the unit runs, null for none.
const TileKernels* tile_kernels(Bf16Unit unit = cpu_bf16_unit());

}  // namespace dptrain::ops
