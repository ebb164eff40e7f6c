#pragma once

#include <cstdint>

#include "device/cpu_bf16.h"
#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// A matrix of f32 or bf16 (the other pointer is null): a left factor with `count` rows or a right one with `count`
/// columns, each of `depth` numbers. The depth runs along the matrix's rows, which are `stride` apart, or `across`
/// them.
struct TileSource {
  const float* f32 = nullptr;
  const Bfloat16* bf16 = nullptr;
  int64_t count = 0, depth = 0, stride = 0;
  bool across = false;

  /// Returns the part with counts [begin, begin + counted) and depths [from, from + deep).
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

/// Computes y = left * right + bias, plus the old y with `accumulate`; then max(0, y) with `relu`.
struct TileProduct {
  int64_t rows, columns, depth;
  int pieces;             ///< pieces of each number, as both factors were packed
  const Bfloat16* left;   ///< packed
  const Bfloat16* right;  ///< packed
  const float* bias = nullptr;
  bool relu = false;
  bool accumulate = false;
  float* y = nullptr;           ///< [rows, columns], or null if the result is rounded to bf16
  Bfloat16* rounded = nullptr;  ///< bf16 result instead of y; not with `accumulate`
  int64_t y_stride;
};

/// Products of matrices on a unit that multiplies bf16 and adds in f32, on the calling thread. An element's terms are
/// added in the order of the depth, whatever rows and columns are computed with it.
///
/// For AMX, an f32 factor may be packed as three pieces: bf16 numbers that add up to it. Six products of pieces are
/// computed, all except those below 2^-24 of the whole. The result is as exact as a product that is rounded to f32
/// (Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
/// Computations", 2019). AMX computes the six in less time than AVX-512 takes for one f32 product. Infinities become
/// NaN this way, and numbers below 1e-33 lose their last bits.
struct TileKernels {
  /// Returns the bf16 numbers in a packed factor with `count` rows or columns.
  int64_t (*packed)(int64_t count, int64_t depth, int pieces);
  /// Packs a factor with one piece per number, or three pieces per f32 number.
  void (*pack_left)(const TileSource& source, int pieces, Bfloat16* to);
  void (*pack_right)(const TileSource& source, int pieces, Bfloat16* to);
  void (*multiply)(const TileProduct& product);
  /// Rows and columns should be multiples of this; each such block is packed on its own.
  int64_t block;
};

/// Returns the kernels for this unit, or null for none.
const TileKernels* tile_kernels(Bf16Unit unit = cpu_bf16_unit());

}  // namespace dptrain::ops
