#include "ops/square_sum_kernels.h"

#include "ops/vector_lanes.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake. The sum is exact, so it is the same for any
// vector width.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Doubles in a register.
constexpr int kWidth = kRegisterLanes / 2;
typedef double Vector __attribute__((vector_size(8 * kWidth)));
using Floats = Row<kWidth>;

/// Each lane adds at most 64 squares of a block. If their pieces have 47 bits, a lane's sum has 53.
constexpr int kLanes = 16, kVectors = kLanes / kWidth;
static_assert(kSquareBlock == 64 * kLanes);
constexpr int kFirstPieceBits = 47;
/// Rounding to nearest leaves a rest of half the size, so later pieces have one bit more.
constexpr int kPieceBits = 48;

/// Returns 2^(place - 300); places count from the lowest bit of the first digit.
double power_of(int place) { return __builtin_bit_cast(double, static_cast<uint64_t>(1023 - 300 + place) << 52); }

/// The bits of a block's smallest and largest magnitudes.
struct Magnitudes {
  uint32_t smallest;  ///< zero excluded
  uint32_t largest;

  // An f32 with stored exponent e (or 1 in place of 0) is a multiple of 2^(e - 150) below 2^(e - 126).
  static int exponent(uint32_t bits) { return bits >> 23 > 1 ? static_cast<int>(bits >> 23) : 1; }
  /// Place of the lowest bit of all squares, and the one above their highest bit.
  int lowest() const { return 2 * exponent(smallest); }
  int end() const { return 2 * exponent(largest) + 48; }
};

Magnitudes magnitudes_of(const float* x, int64_t count) {
  uint32_t largest = 0, smallest_less_one = UINT32_MAX;  // zero becomes UINT32_MAX
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]) & 0x7fffffffu, less_one = bits - 1;
    largest = bits > largest ? bits : largest;
    smallest_less_one = less_one < smallest_less_one ? less_one : smallest_less_one;
  }
  return {.smallest = smallest_less_one + 1, .largest = largest};
}

/// How a block's squares are cut into pieces. The first piece is the nearest multiple of the first place's power of
/// two, the second the nearest multiple for what that leaves, and so on; the last piece takes the rest.
template <int kPieces>
struct Cut {
  int places[kPieces];
  Vector rounders[kPieces];

  explicit Cut(const Magnitudes& block) {
    int end = block.end();
    for (int piece = 0; piece < kPieces; ++piece) {
      const int place = end - (piece == 0 ? kFirstPieceBits : kPieceBits);
      end = places[piece] = place > block.lowest() ? place : block.lowest();
      // A number below a quarter of the rounder, when added to it, is rounded to a multiple of the place's power.
      rounders[piece] = Vector{} + 1.5 * power_of(end + 52);
    }
  }
};

/// Adds the squares of a block, or of a part of it; `count` is a multiple of kLanes.
template <int kPieces>
void add_squares(const float* x, int64_t count, const Cut<kPieces>& cut, SquarePieces& pieces) {
  Vector sums[kPieces][kVectors] = {};
  for (int64_t i = 0; i < count; i += kLanes) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const Floats floats = *reinterpret_cast<const Floats*>(x + i + v * kWidth);
      const Vector value = __builtin_convertvector(floats, Vector);
      Vector rest = value * value;  // exact
#pragma GCC unroll 12
      for (int piece = 0; piece + 1 < kPieces; ++piece) {
        const Vector rounded = (rest + cut.rounders[piece]) - cut.rounders[piece];
        sums[piece][v] += rounded;
        rest -= rounded;
      }
      sums[kPieces - 1][v] += rest;
    }
  }
  for (int piece = 0; piece < kPieces; ++piece) {
    const double to_whole = power_of(600 - cut.places[piece]);
    for (int v = 0; v < kVectors; ++v)
      for (int lane = 0; lane < kWidth; ++lane)
        pieces.sums[piece] += static_cast<int64_t>(sums[piece][v][lane] * to_whole);
  }
}

template <int kPieces>
void square_in_pieces(const float* x, int64_t count, const Magnitudes& block, SquarePieces& pieces) {
  const Cut<kPieces> cut(block);
  pieces.count = kPieces;
  for (int piece = 0; piece < kPieces; ++piece) pieces.places[piece] = cut.places[piece];
  const int64_t whole = count / kLanes * kLanes;
  add_squares(x, whole, cut, pieces);
  float rest[kLanes] = {};
  for (int64_t i = whole; i < count; ++i) rest[i - whole] = x[i];
  add_squares(rest, kLanes, cut, pieces);
}

void square_block(const float* x, int64_t count, SquarePieces& pieces) {
  constexpr uint32_t kInfinityBits = 0x7f800000;
  const Magnitudes block = magnitudes_of(x, count);
  pieces = {.largest = block.largest};
  if (block.largest == 0 || block.largest >= kInfinityBits) return;
  const int bits = block.end() - block.lowest();
  const int needed = 1 + (bits - kFirstPieceBits + kPieceBits - 1) / kPieceBits;
  if (needed <= 2) return square_in_pieces<2>(x, count, block, pieces);
  if (needed <= 3) return square_in_pieces<3>(x, count, block, pieces);
  if (needed <= 4) return square_in_pieces<4>(x, count, block, pieces);
  if (needed <= 6) return square_in_pieces<6>(x, count, block, pieces);
  square_in_pieces<kMostSquarePieces>(x, count, block, pieces);
}

}  // namespace

extern const SquareSumKernels kSquareSum;
const SquareSumKernels kSquareSum = {.square_block = square_block};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
