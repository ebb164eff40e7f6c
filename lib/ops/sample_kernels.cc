#include "ops/sample_kernels.h"

#include "ops/max_pool_place.h"
#include "ops/small_product.h"
#include "ops/vector_lanes.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

using Vector = Register;
using Places = Lanes<kRegisterLanes>::Places;

/// Returns rows per tile so that tiles are about equal: in a small tile the sums would wait for each other.
int64_t rows_of_tile(int64_t rows) {
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  return (rows + tiles - 1) / tiles;
}

/// Computes R rows by V vectors of samples.
template <int R, int V>
[[gnu::noinline]] void multiply_tile(const SampleProduct& p, int64_t row, int64_t pixel) {
  Vector sums[R][V];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) sums[r][v] = Vector{} + (p.bias != nullptr ? p.bias[row + r] : 0.f);
  const int64_t stride = p.weight_row, depth = p.depth;
  for (int64_t segment = 0; segment < p.segments; ++segment) {
    const float* __restrict weights = p.weights + row * stride + segment * p.weight_segment;
    const float* __restrict images = p.images + pixel * p.image_pixel + segment * p.image_segment;
    for (int64_t k = 0; k < depth; ++k) {
      Vector image[V];
      for (int v = 0; v < V; ++v) image[v] = load<kRegisterLanes>(images + (k * V + v) * kRegisterLanes);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        const float weight = weights[r * stride + k];
        for (int v = 0; v < V; ++v) sums[r][v] += weight * image[v];
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) {
      const Vector sum = sums[r][v];
      store<kRegisterLanes>(p.y + ((pixel * p.rows + row + r) * V + v) * kRegisterLanes,
                            p.relu ? (sum <= 0 ? Vector{} : sum) : sum);
    }
}

template <int V, int R = kTileRows>
void multiply_rows(const SampleProduct& p, int64_t row, int64_t rows) {
  if constexpr (R > 1)
    if (rows < R) return multiply_rows<V, R - 1>(p, row, rows);
  // The tile's weights stay in the first-level cache.
  for (int64_t pixel = 0; pixel < p.pixels; ++pixel) multiply_tile<R, V>(p, row, pixel);
}

void multiply(const SampleProduct& p, int64_t vectors) {
  const int64_t at_once = rows_of_tile(p.rows);
  for (int64_t row = 0; row < p.rows; row += at_once) {
    const int64_t rows = p.rows - row < at_once ? p.rows - row : at_once;
    vectors == 1 ? multiply_rows<1>(p, row, rows) : multiply_rows<2>(p, row, rows);
  }
}

void max_pool(const SampleMaxima& p, int64_t vectors) {
  const int64_t pixel = p.channels * vectors * kRegisterLanes;
  for (int64_t i = 0; i < p.pixels; ++i)
    for (int64_t lane = 0; lane < pixel; lane += kRegisterLanes) {
      Vector best = Vector{} - __builtin_inff();
      Places place{};
      for (int64_t u = 0; u < p.kernel; ++u)
        for (int64_t v = 0; v < p.kernel; ++v) {
          const Vector value = load<kRegisterLanes>(p.x + u * p.x_row + (i * p.kernel + v) * pixel + lane);
          const Places larger = (value > best) | (value != value);
          best = larger ? value : best;
          place = larger ? Places{} + static_cast<int32_t>(u * p.kernel + v) : place;
        }
      if (p.relu) {
        const Places cut = best <= 0.f;
        best = cut ? Vector{} : best;
        place = cut ? Places{} + int32_t{kNoPlace} : place;
      }
      store<kRegisterLanes>(p.y + i * pixel + lane, best);
      store_bytes<kRegisterLanes>(p.places + i * pixel + lane, place);
    }
}

void gather(const float* from, int64_t stride, int64_t samples, int64_t length, int64_t vectors, float* to) {
  const int64_t lanes = vectors * kRegisterLanes;
  for (int64_t vector = 0; vector < vectors; ++vector) {
    const int64_t first = vector * kRegisterLanes;
    const auto is_there = [=](int64_t lane) { return first + lane < samples; };
    int64_t i = 0;
    for (; i + kRegisterLanes <= length; i += kRegisterLanes) {
      Vector block[kRegisterLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kRegisterLanes; ++r)
        block[r] = is_there(r) ? load<kRegisterLanes>(from + (first + r) * stride + i) : Vector{};
      transpose(block);
#pragma GCC unroll 16
      for (int r = 0; r < kRegisterLanes; ++r) store<kRegisterLanes>(to + (i + r) * lanes + first, block[r]);
    }
    for (; i < length; ++i)
      for (int64_t lane = 0; lane < kRegisterLanes; ++lane)
        to[i * lanes + first + lane] = is_there(lane) ? from[(first + lane) * stride + i] : 0.f;
  }
}

/// Calls block(i) for blocks of `at_once` that cover [0, length); the last one may begin inside the one before it. If
/// `length` is less than a block, calls rest(i) for each i instead.
template <class Block, class Rest>
void for_blocks(int64_t length, int64_t at_once, const Block& block, const Rest& rest) {
  if (length < at_once) {
    for (int64_t i = 0; i < length; ++i) rest(i);
    return;
  }
  for (int64_t i = 0; i < length; i += at_once) block(i < length - at_once ? i : length - at_once);
}

void scatter(const float* from, int64_t samples, int64_t length, int64_t vectors, float* to, int64_t stride) {
  const int64_t lanes = vectors * kRegisterLanes;
  for (int64_t first = 0; first < samples; first += kRegisterLanes) {
    const int64_t count = samples - first < kRegisterLanes ? samples - first : kRegisterLanes;
    for_blocks(
        length, kRegisterLanes,
        [&](int64_t i) {
          Vector block[kRegisterLanes];
#pragma GCC unroll 16
          for (int r = 0; r < kRegisterLanes; ++r) block[r] = load<kRegisterLanes>(from + (i + r) * lanes + first);
          transpose(block);
#pragma GCC unroll 16
          for (int r = 0; r < kRegisterLanes; ++r)
            if (r < count) store<kRegisterLanes>(to + (first + r) * stride + i, block[r]);
        },
        [&](int64_t i) {
          for (int64_t lane = 0; lane < count; ++lane) to[(first + lane) * stride + i] = from[i * lanes + first + lane];
        });
  }
}

/// Packs four rows of places, one byte each, into each lane's 32 bits.
Vector four_rows(const uint8_t* from, int64_t lanes) {
  Places rows[4];
  for (int r = 0; r < 4; ++r) rows[r] = load_bytes<kRegisterLanes>(from + r * lanes);
  return reinterpret_cast<Vector>(rows[0] | rows[1] << 8 | rows[2] << 16 | rows[3] << 24);
}

void scatter_places(const uint8_t* from, int64_t samples, int64_t length, int64_t vectors, uint8_t* to,
                    int64_t stride) {
  constexpr int64_t kAtOnce = 4 * kRegisterLanes;
  typedef uint8_t Block __attribute__((vector_size(kAtOnce), aligned(1)));
  const int64_t lanes = vectors * kRegisterLanes;
  for (int64_t first = 0; first < samples; first += kRegisterLanes) {
    const int64_t count = samples - first < kRegisterLanes ? samples - first : kRegisterLanes;
    for_blocks(
        length, kAtOnce,
        [&](int64_t i) {
          Vector block[kRegisterLanes];
#pragma GCC unroll 16
          for (int r = 0; r < kRegisterLanes; ++r) block[r] = four_rows(from + (i + 4 * r) * lanes + first, lanes);
          transpose(block);
#pragma GCC unroll 16
          for (int r = 0; r < kRegisterLanes; ++r)
            if (r < count) *reinterpret_cast<Block*>(to + (first + r) * stride + i) = reinterpret_cast<Block>(block[r]);
        },
        [&](int64_t i) {
          for (int64_t lane = 0; lane < count; ++lane) to[(first + lane) * stride + i] = from[i * lanes + first + lane];
        });
  }
}

/// Adds up R outputs by V vectors of a window's row.
template <int R, int V>
[[gnu::noinline]] void add_tile(const WindowSums& p, const float* x, const float* y, float* to, int64_t to_stride) {
  Vector sums[R][V];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) sums[r][v] = Vector{};
  const int64_t outputs = p.outputs, x_pixel = p.x_pixel;
  for (int64_t i = 0; i < p.height; ++i) {
    const float* __restrict pixels = x + i * p.x_row;
    const float* __restrict gradients = y + i * p.width_of_y * outputs;
    for (int64_t j = 0; j < p.width_of_y; ++j) {
      Vector pixel[V];
      for (int v = 0; v < V; ++v) pixel[v] = load<kRegisterLanes>(pixels + j * x_pixel + v * kRegisterLanes);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        const float gradient = gradients[j * outputs + r];
        for (int v = 0; v < V; ++v) sums[r][v] += gradient * pixel[v];
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) {
      float* sum = to + r * to_stride + v * kRegisterLanes;
      store<kRegisterLanes>(sum, load<kRegisterLanes>(sum) + sums[r][v]);
    }
}

template <int V, int R = kTileRows>
void add_rows(const WindowSums& p, int64_t rows, const float* x, const float* y, float* to, int64_t to_stride) {
  if constexpr (R > 1)
    if (rows < R) return add_rows<V, R - 1>(p, rows, x, y, to, to_stride);
  add_tile<R, V>(p, x, y, to, to_stride);
}

void add_windows(const WindowSums& p) {
  const int64_t vectors = (p.width + kRegisterLanes - 1) / kRegisterLanes, of_window = vectors * kRegisterLanes;
  const int64_t to_stride = p.windows * of_window, at_once = rows_of_tile(p.outputs);
  for (int64_t output = 0; output < p.outputs; output += at_once) {
    const int64_t rows = p.outputs - output < at_once ? p.outputs - output : at_once;
    for (int64_t window = 0; window < p.windows; ++window)
      for (int64_t vector = 0; vector < vectors; vector += 2) {
        const float* x = p.x + window * p.x_window + vector * kRegisterLanes;
        float* to = p.to + output * to_stride + window * of_window + vector * kRegisterLanes;
        if (vector + 1 < vectors)
          add_rows<2>(p, rows, x, p.y + output, to, to_stride);
        else
          add_rows<1>(p, rows, x, p.y + output, to, to_stride);
      }
  }
}

template <int L>
void copy_windows_by(const WindowCopies& c) {
  for (int64_t pixel = 0; pixel < c.pixels; ++pixel)
    for (int64_t window = 0; window < c.windows; ++window)
      store<L>(c.to + pixel * c.to_pixel + window * c.width, load<L>(c.x + pixel * c.x_pixel + window * c.x_window));
}

void copy_windows(const WindowCopies& c) {
  2 * c.width <= kRegisterLanes ? copy_windows_by<kRegisterLanes / 2>(c) : copy_windows_by<kRegisterLanes>(c);
}

}  // namespace

extern const SampleKernels kSamples;
const SampleKernels kSamples = {.lanes = kRegisterLanes,
                                .multiply = multiply,
                                .max_pool = max_pool,
                                .gather = gather,
                                .scatter = scatter,
                                .scatter_places = scatter_places,
                                .add_windows = add_windows,
                                .copy_windows = copy_windows};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
