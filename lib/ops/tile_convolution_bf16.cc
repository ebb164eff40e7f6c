#include "ops/tile_block.h"
#include "ops/tile_convolution.h"
#include "ops/tile_position_reader.h"

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Interleaves two rows of 16 numbers, adjacent in memory, as pairs of one number from each.
__m512i rows_as_pairs(__m512i rows) {
  const __m512i interleaved = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                                               6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(interleaved, rows);
}

void pack_positions(const TilePositions& positions, int64_t length, Bfloat16* to) {
  read_positions(positions, 0, length, [&](__m512i channels) {
    _mm512_storeu_si512(to, channels);
    to += kTileDepth;
  });
}

/// Returns the weights between two blocks of 16 channels, [16 inputs, 16 outputs]; null past the last block.
const Bfloat16* weights_between(const TileWeights& p, int64_t output, int64_t input, int64_t tap) {
  if (output >= p.output_blocks || input >= p.input_blocks) return nullptr;
  return p.weights + ((output * p.input_blocks + input) * p.window + tap) * 16 * 16;
}

__m512i read_rows(const Bfloat16* from) { return from == nullptr ? _mm512_setzero_si512() : _mm512_loadu_si512(from); }
__m256i read_row(const Bfloat16* from) {
  return from == nullptr ? _mm256_setzero_si256() : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

/// Packs a right tile of 32 input channels and 16 outputs: two rows of a block of weights become one row of pairs.
void pack_tile(const TileWeights& p, int64_t output, int64_t plane, int64_t tap, Bfloat16* to) {
  for (int64_t half = 0; half < 2; ++half) {
    const Bfloat16* from = weights_between(p, output, 2 * plane + half, tap);
    for (int64_t r = 0; r < 8; ++r, to += kTileDepth)
      _mm512_storeu_si512(to, rows_as_pairs(read_rows(from == nullptr ? from : from + 2 * r * 16)));
  }
}

/// Packs a right tile of 32 output channels and 16 inputs: an input's weights are the pairs of a column.
void pack_exchanged_tile(const TileWeights& p, int64_t input, int64_t plane, int64_t tap, Bfloat16* to) {
  const Bfloat16* lower = weights_between(p, 2 * plane, input, tap);
  const Bfloat16* upper = weights_between(p, 2 * plane + 1, input, tap);
  __m512i rows[16];
  for (int64_t r = 0; r < 16; ++r)
    rows[r] = _mm512_inserti64x4(_mm512_castsi256_si512(read_row(lower == nullptr ? lower : lower + r * 16)),
                                 read_row(upper == nullptr ? upper : upper + r * 16), 1);
  transpose_pairs(rows);
  for (int64_t r = 0; r < 16; ++r) _mm512_storeu_si512(to + r * kTileDepth, rows[r]);
}

void pack_weights(const TileWeights& p) {
  const int64_t planes = ((p.exchanged ? p.output_blocks : p.input_blocks) + 1) / 2;
  Bfloat16* to = p.to;
  for (int64_t plane = 0; plane < planes; ++plane)
    for (int64_t t = 0; t < p.tap_count; ++t)
      for (int64_t half = 0; half < 2; ++half, to += kTileElements)
        p.exchanged ? pack_exchanged_tile(p, p.first + half, plane, p.taps[t], to)
                    : pack_tile(p, p.first + half, plane, p.taps[t], to);
}

/// Writes the sums of 32 positions and 32 channels from `first` on to y.
void finish(const TileConvolution& p, const float* sums, int64_t position, int64_t first) {
  const int64_t rows = smaller(kBlock, p.positions - position);
  for (int64_t half = 0; half < kBlock && first + half < p.y_strides.channels; half += 16) {
    const __mmask16 lanes = first_lanes(p.y_strides.channels - first - half);
    const __m512 bias = p.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(lanes, p.bias + first + half);
    // Blocks of channels are stored whole, with zeros in the lanes past the last channel.
    const __mmask16 stored = p.y_strides.pixel == 16 ? first_lanes(16) : lanes;
    Bfloat16* y = p.y + (first + half) / 16 * p.y_strides.block;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t place = p.places[position + r];
      if (place < 0) continue;
      __m512 sum = _mm512_add_ps(_mm512_load_ps(sums + r * kBlock + half), bias);
      if (p.relu) sum = positive(sum);
      _mm256_mask_storeu_epi16(y + place, stored, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sum)));
    }
  }
}

/// Computes the outputs of `Columns` blocks of 16 channels from `first` on.
template <int Columns>
void multiply_panel(const TileConvolution& p, const Bfloat16* panel, int64_t first) {
  alignas(64) float sums[kBlock * kBlock];
  for (int64_t position = 0; position < p.positions; position += kBlock) {
    const auto steps = [&](const auto& step) {
      const Bfloat16* weights = panel;
      for (int64_t plane = 0; plane < p.planes; ++plane) {
        const Bfloat16* source = p.source + plane * p.plane + position * kTileDepth;
        for (int64_t t = 0; t < p.tap_count; ++t, weights += 2 * kTileElements)
          step(source + p.tap_starts[t], weights, weights + kTileElements);
      }
    };
    multiply_block<2, Columns>(steps, false, sums, kBlock);
    finish(p, sums, position, first);
  }
}

void multiply(const TileConvolution& p) {
  [[maybe_unused]] const BlockUnit unit;
  const Bfloat16* panel = p.weights;
  for (int64_t first = 0; first < p.y_strides.channels; first += kBlock) {
    p.y_strides.channels - first > 16 ? multiply_panel<2>(p, panel, first) : multiply_panel<1>(p, panel, first);
    panel += p.planes * p.tap_count * 2 * kTileElements;
  }
}

}  // namespace

extern const ConvolutionTileKernels kConvolutionTiles;
const ConvolutionTileKernels kConvolutionTiles = {
    .pack_positions = pack_positions, .pack_weights = pack_weights, .multiply = multiply, .step = 2 * kTileElements};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
