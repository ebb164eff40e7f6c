#include <utility>

#include "ops/winograd_layout.h"

// The 36 products of matrices between Winograd's transforms.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Input channels whose sums with a panel are kept in registers.
constexpr int kChannels = kRunTiles > 8 ? 8 : 4;

/// Computes one product of R tiles and a panel of P blocks. Not inlined, because surrounding code would take registers
/// from the sums.
template <int R, int P>
[[gnu::noinline]] void multiply_run(const WinogradProduct& p, const float* v, const float* u, float* m) {
  const int64_t block = p.tiles * kWinogradProducts * kLanes;
  Vector sums[R][P];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int o = 0; o < P; ++o) sums[r][o] = Vector{};
  for (int64_t input = 0; input < p.inputs; ++input, v += block, u += weight_numbers(P) - kLanes * P * kLanes)
    for (int k = 0; k < kLanes; ++k, u += P * kLanes) {
      Vector weights[P];
#pragma GCC unroll 2
      for (int o = 0; o < P; ++o) weights[o] = load<kLanes>(u + o * kLanes);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        const float value = v[r * kLanes + k];
#pragma GCC unroll 2
        for (int o = 0; o < P; ++o) sums[r][o] += value * weights[o];
      }
    }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int o = 0; o < P; ++o) {
      float* to = m + o * block + r * kLanes;
      store<kLanes>(to, p.accumulate ? load<kLanes>(to) + sums[r][o] : sums[r][o]);
    }
}

using MultiplyRun = void (*)(const WinogradProduct&, const float*, const float*, float*);
/// multiply_run by the number of tiles.
template <int P, class Counts = std::make_integer_sequence<int, kRunTiles>>
struct Runs;
template <int P, int... R>
struct Runs<P, std::integer_sequence<int, R...>> {
  static constexpr MultiplyRun of[] = {nullptr, multiply_run<R + 1, P>...};
};

/// Computes one product of R input channels and P blocks of outputs, over all tiles.
template <int R, int P>
[[gnu::noinline]] void multiply_channels(int64_t tiles, const float* v, const float* z, float* du) {
  const int64_t block = kWinogradProducts * winograd_row(tiles) * kLanes;
  Vector sums[R][P];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int o = 0; o < P; ++o) sums[r][o] = load<kLanes>(du + (r * P + o) * kLanes);
  for (int64_t t = 0; t < tiles; ++t, v += kLanes, z += kLanes) {
    Vector gradients[P];
#pragma GCC unroll 2
    for (int o = 0; o < P; ++o) gradients[o] = load<kLanes>(z + o * block);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const float value = v[r];
#pragma GCC unroll 2
      for (int o = 0; o < P; ++o) sums[r][o] += value * gradients[o];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int o = 0; o < P; ++o) store<kLanes>(du + (r * P + o) * kLanes, sums[r][o]);
}

/// Computes product number e.
template <int P>
void multiply_panel(const WinogradWeightProduct& p, int64_t e, const float* z, float* du) {
  const int64_t product = winograd_row(p.tiles) * kLanes, block = kWinogradProducts * product;
  for (int64_t input = 0; input < p.inputs; ++input)
    for (int c = 0; c < kLanes; c += kChannels)
      multiply_channels<kChannels, P>(p.tiles, p.v + input * block + e * product + c, z + e * product,
                                      du + input * weight_numbers(P) + e * weight_product(P) + c * P * kLanes);
}

}  // namespace

void multiply_by_weights(const WinogradProduct& p) {
  constexpr int64_t kMostRuns = runs_of(kMostWinogradTiles);
  const MultiplyRun* kernels = p.outputs == kPanel ? Runs<kPanel>::of : Runs<1>::of;
  const int64_t runs = runs_of(p.tiles);
  int64_t begin[kMostRuns + 1];
  for (int64_t run = 0; run <= runs; ++run) begin[run] = run_begin(run, p.tiles, runs);
  for (int64_t e = 0; e < kWinogradProducts; ++e)
    for (int64_t run = 0; run < runs; ++run) {
      const int64_t tiles = begin[run + 1] - begin[run];
      const int64_t at = (begin[run] * kWinogradProducts + e * tiles) * kLanes;
      kernels[tiles](p, p.v + at, p.u + e * weight_product(p.outputs), p.m + at);
    }
}

void multiply_by_tiles(const WinogradWeightProduct& p) {
  for (int64_t e = 0; e < kWinogradProducts; ++e)
    for (int64_t output = 0; output < p.outputs; output += kPanel) {
      const float* z = p.z + output * kWinogradProducts * winograd_row(p.tiles) * kLanes;
      float* du = p.du + output / kPanel * p.inputs * weight_numbers(kPanel);
      p.outputs - output >= kPanel ? multiply_panel<kPanel>(p, e, z, du) : multiply_panel<1>(p, e, z, du);
    }
}

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
