#include "ops/conv2d_max_pool_kernels.h"

#include "ops/max_pool_place.h"
#include "ops/small_product.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// A window's row that is short compared with a vector is read in half vectors.
constexpr int kHalf = kRegisterLanes / 2;

int64_t lanes_for(int64_t width) { return width <= kHalf ? kHalf : kRegisterLanes; }

int64_t width_in_vectors(int64_t width) {
  const int64_t lanes = lanes_for(width);
  return (width + lanes - 1) / lanes * lanes;
}

void mask(const float* gradients, const uint8_t* places, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = places[i] == kNoPlace ? 0.f : gradients[i];
}

/// Copies `count` shares, and some past them, in whole vectors.
void copy_shares(const Share* from, int64_t count, Share* to) {
  typedef int64_t Shares __attribute__((vector_size(4 * kRegisterLanes), aligned(4), may_alias));
  constexpr int64_t kAtOnce = sizeof(Shares) / sizeof(Share);
  static_assert(kAtOnce <= kShareMargin);
  for (int64_t i = 0; i < count; i += kAtOnce)
    *reinterpret_cast<Shares*>(to + i) = *reinterpret_cast<const Shares*>(from + i);
}

void share_by_output(const MaximaGradients& maxima, const SharesOfOutputs& to) {
  const int64_t channels = maxima.channels, kernel = maxima.kernel, in_row = maxima.width + kShareMargin;
  // For each place in a window: its offset in the input, and the first list of its row. Without a place the gradient is
  // zero.
  int32_t offsets[256] = {}, lists[256] = {};
  for (int64_t u = 0; u < kernel; ++u)
    for (int64_t v = 0; v < kernel; ++v) {
      offsets[u * kernel + v] = static_cast<int32_t>(u * to.x_row + v * to.x_pixel);
      lists[u * kernel + v] = static_cast<int32_t>(u * channels);
    }
  for (int64_t c = 0; c < channels; ++c) to.counts[c] = 0;
  const float* gradients = maxima.gradients;
  const uint8_t* places = maxima.places;
  for (int64_t i = 0; i < maxima.height; ++i) {
    for (int64_t list = 0; list < kernel * channels; ++list) to.row_counts[list] = 0;
    for (int64_t j = 0; j < maxima.width; ++j, gradients += channels, places += channels) {
      const auto corner = static_cast<int32_t>(kernel * (i * to.x_row + j * to.x_pixel));
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t list = lists[places[c]] + c;
        to.row_shares[list * in_row + to.row_counts[list]] = {gradients[c], corner + offsets[places[c]]};
        to.row_counts[list] += gradients[c] != 0;
      }
    }
    for (int64_t u = 0, list = 0; u < kernel; ++u)
      for (int64_t c = 0; c < channels; ++c, ++list) {
        copy_shares(to.row_shares + list * in_row, to.row_counts[list], to.shares + c * to.most_shares + to.counts[c]);
        to.counts[c] += to.row_counts[list];
      }
  }
}

void share_by_pixel(const MaximaGradients& maxima, const SharesOfPixels& to) {
  const int64_t channels = maxima.channels, pixels = maxima.kernel * maxima.kernel;
  const float* gradients = maxima.gradients;
  const uint8_t* places = maxima.places;
  for (int64_t i = 0; i < maxima.height * maxima.width; ++i, gradients += channels, places += channels) {
    Share* shares = to.shares + i * pixels * channels;
    int32_t* counts = to.counts + i * pixels;
    for (int64_t p = 0; p < pixels; ++p) counts[p] = 0;
    for (int64_t c = 0; c < channels; ++c) {
      // Without a place the gradient is zero, and the share that is written here gets overwritten.
      const int64_t place = places[c] == kNoPlace ? 0 : places[c];
      shares[place * channels + counts[place]] = {gradients[c], static_cast<int32_t>(c * to.weight_step)};
      counts[place] += gradients[c] != 0;
    }
  }
}

/// Adds up U rows of a window by V vectors of L numbers.
template <int L, int U, int V>
[[gnu::noinline]] void add_tile(const ShareSums& p, int64_t output, const float* x, float* to, int64_t to_row) {
  Row<L> sums[U][V];
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u)
    for (int v = 0; v < V; ++v) sums[u][v] = Row<L>{};
  const Share* __restrict shares = p.shares + output * p.most_shares;
  const int64_t count = p.counts[output], x_row = p.x_row;
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = shares[i].gradient;
    const float* window = x + shares[i].at;
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u)
      for (int v = 0; v < V; ++v) sums[u][v] += gradient * load<L>(window + u * x_row + v * L);
  }
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u)
    for (int v = 0; v < V; ++v) {
      float* sum = to + u * to_row + v * L;
      store<L>(sum, load<L>(sum) + sums[u][v]);
    }
}

constexpr int kTileWindows = 5, kTileVectors = 4;

template <int L, int V, int U = kTileWindows>
void add_windows(const ShareSums& p, int64_t output, int64_t windows, const float* x, float* to, int64_t to_row) {
  if constexpr (U > 1)
    if (windows < U) return add_windows<L, V, U - 1>(p, output, windows, x, to, to_row);
  add_tile<L, U, V>(p, output, x, to, to_row);
}

template <int L, int V = kTileVectors>
void add_vectors(const ShareSums& p, int64_t output, int64_t window, int64_t vector, int64_t vectors) {
  if constexpr (V > 1)
    if (vectors < V) return add_vectors<L, V - 1>(p, output, window, vector, vectors);
  const int64_t to_row = width_in_vectors(p.width);
  const int64_t windows = p.windows - window < kTileWindows ? p.windows - window : kTileWindows;
  add_windows<L, V>(p, output, windows, p.x + window * p.x_row + vector * L,
                    p.to + (output * p.windows + window) * to_row + vector * L, to_row);
}

/// Returns the size of about equal parts of `count`, at most `most`.
int64_t in_equal_parts(int64_t count, int64_t most) {
  const int64_t parts = (count + most - 1) / most;
  return (count + parts - 1) / parts;
}

void add_shares(const ShareSums& p) {
  const int64_t lanes = lanes_for(p.width), vectors = width_in_vectors(p.width) / lanes;
  const int64_t at_once = in_equal_parts(vectors, kTileVectors);
  for (int64_t output = 0; output < p.outputs; ++output)
    for (int64_t window = 0; window < p.windows; window += kTileWindows)
      for (int64_t vector = 0; vector < vectors; vector += at_once) {
        const int64_t count = vectors - vector < at_once ? vectors - vector : at_once;
        if (lanes == kHalf)
          add_vectors<kHalf, 1>(p, output, window, vector, count);
        else
          add_vectors<kRegisterLanes>(p, output, window, vector, count);
      }
}

/// Adds to V vectors of a row of one pixel's window.
template <int L, int V>
inline void spread_tile(const Share* __restrict shares, int64_t count, const float* __restrict weights,
                        float* __restrict x) {
  Row<L> sums[V];
  for (int v = 0; v < V; ++v) sums[v] = load<L>(x + v * L);
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = shares[i].gradient;
    const float* weight = weights + shares[i].at;
    for (int v = 0; v < V; ++v) sums[v] += gradient * load<L>(weight + v * L);
  }
  for (int v = 0; v < V; ++v) store<L>(x + v * L, sums[v]);
}

/// Adds to one row of all windows. The inner loop moves to another row of the image with each pixel, so that no pixel
/// waits for the stores of the one before.
template <int L, int V>
[[gnu::noinline]] void spread_row(const ShareSpread& p, int64_t window, int64_t vector) {
  const int64_t kernel = p.kernel, pixels = kernel * kernel, columns = p.width_of_y / kernel;
  const float* weights = p.weights + window * p.outputs * width_in_vectors(p.width) + vector * L;
  float* x = p.x + window * p.x_row + vector * L;
  for (int64_t j = 0; j < p.width_of_y; ++j)
    for (int64_t i = 0; i < p.height; ++i) {
      const int64_t pixel = (i / kernel * columns + j / kernel) * pixels + i % kernel * kernel + j % kernel;
      if (p.counts[pixel] > 0)
        spread_tile<L, V>(p.shares + pixel * p.outputs, p.counts[pixel], weights, x + i * p.x_row + j * p.x_pixel);
    }
}

constexpr int kSpreadVectors = 8;

template <int L, int V = kSpreadVectors>
void spread_vectors(const ShareSpread& p, int64_t window, int64_t vector, int64_t vectors) {
  if constexpr (V > 1)
    if (vectors < V) return spread_vectors<L, V - 1>(p, window, vector, vectors);
  spread_row<L, V>(p, window, vector);
}

void spread_shares(const ShareSpread& p) {
  const int64_t lanes = lanes_for(p.width), vectors = width_in_vectors(p.width) / lanes;
  const int64_t at_once = in_equal_parts(vectors, kSpreadVectors);
  // The weights of a window's row stay in the first-level cache.
  for (int64_t window = 0; window < p.windows; ++window)
    for (int64_t vector = 0; vector < vectors; vector += at_once) {
      const int64_t count = vectors - vector < at_once ? vectors - vector : at_once;
      if (lanes == kHalf)
        spread_vectors<kHalf, 1>(p, window, vector, count);
      else
        spread_vectors<kRegisterLanes>(p, window, vector, count);
    }
}

}  // namespace

extern const Conv2dMaxPoolKernels kConv2dMaxPool;
const Conv2dMaxPoolKernels kConv2dMaxPool = {.width_in_vectors = width_in_vectors,
                                             .mask = mask,
                                             .share_by_output = share_by_output,
                                             .share_by_pixel = share_by_pixel,
                                             .add_shares = add_shares,
                                             .spread_shares = spread_shares};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
