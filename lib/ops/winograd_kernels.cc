#include "ops/winograd_kernels.h"

#include "ops/winograd_transforms.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

// A product's tile of sums is kept in registers: on AVX-512 24 of 32, on lesser machines 12 of 16.
#if defined(__AVX512F__)
constexpr int kLanes = 16, kRows = 12;
#else
constexpr int kLanes = 8, kRows = 6;
#endif
constexpr int kPanel = 2;
constexpr int64_t kMostGroups = (kMostWinogradSquares + kRows - 1) / kRows;
/// Of inputs' channels, whose sums with a panel are in registers.
constexpr int kWeightRows = kRows > 8 ? 8 : 4;
constexpr int64_t kTaps = kWinogradWeights * kWinogradWeights;

using Vector = Row<kLanes>;

/// The squares of some tiles one after the other: image, place of the first output, and where the square's numbers of
/// the first product lie in a block, `product` apart from those of the next.
class TileWalk {
 public:
  /// `grouped`: as products by weights read them; else as those of squares do.
  TileWalk(const WinogradTiles& tiles, bool grouped)
      : tiles_(tiles), groups_(grouped ? (tiles.count + kRows - 1) / kRows : 1), end_(tiles.count / groups_) {
    const int64_t per_image = tiles.rows * tiles.columns;
    image = tiles.first / per_image;
    row = tiles.first % per_image / tiles.columns * kWinogradOutputs;
    column = tiles.first % tiles.columns * kWinogradOutputs;
    product = grouped ? end_ * kLanes : winograd_row(tiles.count) * kLanes;
  }
  void next() {
    offset += kLanes;
    if (++tile_ == end_) next_group();
    column += kWinogradOutputs;
    if (column < tiles_.columns * kWinogradOutputs) return;
    column = 0;
    row += kWinogradOutputs;
    if (row < tiles_.rows * kWinogradOutputs) return;
    row = 0;
    ++image;
  }

  int64_t image, row, column;
  int64_t offset = 0, product;

 private:
  void next_group() {
    if (++group_ == groups_) return;
    end_ = (group_ + 1) * tiles_.count / groups_;
    offset = tile_ * kWinogradProducts * kLanes;
    product = (end_ - tile_) * kLanes;
  }

  WinogradTiles tiles_;
  int64_t groups_, end_, tile_ = 0, group_ = 0;
};

/// The groups that squares lie in, as equal as they can be: few rows hide no latency. Group i has squares begin[i] to
/// begin[i + 1].
class Groups {
 public:
  explicit Groups(int64_t squares) : count((squares + kRows - 1) / kRows) {
    for (int64_t group = 0; group <= count; ++group) begin[group] = group * squares / count;
  }

  int64_t count, begin[kMostGroups + 1];
};

/// A square of S x S positions of an image, of which those outside are zeros.
template <int S>
class Window {
 public:
  Window(const WinogradImages& images, int64_t row, int64_t column)
      : origin_((row * images.width + column) * kLanes), pitch_(images.width * kLanes) {
    whole_ = row >= 0 && column >= 0 && row + S <= images.height && column + S <= images.width;
    for (int i = 0; i < S; ++i) {
      rows_[i] = row + i >= 0 && row + i < images.height;
      columns_[i] = column + i >= 0 && column + i < images.width;
    }
  }

  /// visit(read), read(i, j) being what stands there.
  template <class Visit>
  void with_reader(const float* image, const Visit& visit) const {
    const float* at = image + origin_;
    if (whole_)
      visit([&](int i, int j) { return load<kLanes>(at + i * pitch_ + j * kLanes); });
    else
      visit([&](int i, int j) {
        return rows_[i] && columns_[j] ? load<kLanes>(at + i * pitch_ + j * kLanes) : Vector{};
      });
  }
  bool has(int i, int j) const { return rows_[i] && columns_[j]; }
  int64_t offset(int i, int j) const { return origin_ + i * pitch_ + j * kLanes; }

 private:
  int64_t origin_, pitch_;
  bool whole_, rows_[S], columns_[S];
};

void transform_inputs(const WinogradImages& x, const float* data, int64_t padding, const WinogradTiles& tiles,
                      bool grouped, float* v) {
  const int64_t image = x.height * x.width * kLanes;
  const int64_t block_numbers = kWinogradProducts * (grouped ? tiles.count : winograd_row(tiles.count)) * kLanes;
  for (int64_t block = 0; block < x.blocks; ++block) {
    TileWalk tile(tiles, grouped);
    for (int64_t t = 0; t < tiles.count; ++t, tile.next()) {
      const Window<kWinogradInputs> window(x, tile.row - padding, tile.column - padding);
      float* to = v + block * block_numbers + tile.offset;
      window.with_reader(data + (tile.image * x.blocks + block) * image, [&](const auto& read) {
        winograd_square(winograd_inputs<Vector>, read, [&](int i, int j, const Vector& value) {
          store<kLanes>(to + (i * kWinogradInputs + j) * tile.product, value);
        });
      });
    }
  }
}

/// From one product of a block of weights to the next.
constexpr int64_t weight_product(int64_t outputs) { return (kLanes * outputs + 1) * kLanes; }

int64_t weight_numbers(int64_t outputs) { return kWinogradProducts * weight_product(outputs); }

/// A block of inputs by a block of outputs as [3, 3, inputs, outputs], turned.
void turn(const float* weights, float (&to)[kTaps][kLanes][kLanes]) {
  for (int64_t tap = 0; tap < kTaps; ++tap) {
    Vector rows[kLanes];
    for (int i = 0; i < kLanes; ++i) rows[i] = load<kLanes>(weights + (tap * kLanes + i) * kLanes);
    transpose<kLanes>(rows);
    for (int i = 0; i < kLanes; ++i) store<kLanes>(to[kTaps - 1 - tap][i], rows[i]);
  }
}

void transform_weights(const WinogradWeights& w, float* u) {
  constexpr int64_t kBlock = kTaps * kLanes * kLanes;
  const int64_t product = weight_product(w.outputs);
  float turned[kTaps][kLanes][kLanes];
  for (int64_t input = 0; input < w.inputs; ++input)
    for (int64_t output = 0; output < w.outputs; ++output) {
      const int64_t from = w.first_input + input, to = w.first_output + output;
      const float* block = w.weights + (w.turned ? from * w.input_blocks + to : to * w.input_blocks + from) * kBlock;
      if (w.turned) {
        turn(block, turned);
        block = &turned[0][0][0];
      }
      for (int i = 0; i < kLanes; ++i) {
        float* at = u + input * weight_numbers(w.outputs) + (i * w.outputs + output) * kLanes;
        winograd_square(
            winograd_weights<Vector>,
            [&](int y, int x) { return load<kLanes>(block + ((y * kWinogradWeights + x) * kLanes + i) * kLanes); },
            [&](int y, int x, const Vector& value) { store<kLanes>(at + (y * kWinogradInputs + x) * product, value); });
      }
    }
}

/// One product of R squares and a panel of P blocks. Not inlined: what is around would take registers from the sums.
template <int R, int P>
[[gnu::noinline]] void multiply_rows(const WinogradProduct& p, const float* v, const float* u, float* m) {
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

using MultiplyRows = void (*)(const WinogradProduct&, const float*, const float*, float*);
template <int P, int... R>
struct RowTable {
  static constexpr MultiplyRows of[] = {nullptr, multiply_rows<R, P>...};
};
#if defined(__AVX512F__)
template <int P>
using Rows = RowTable<P, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>;
#else
template <int P>
using Rows = RowTable<P, 1, 2, 3, 4, 5, 6>;
#endif

void multiply(const WinogradProduct& p) {
  const MultiplyRows* kernels = p.outputs == kPanel ? Rows<kPanel>::of : Rows<1>::of;
  const Groups groups(p.tiles);
  for (int64_t e = 0; e < kWinogradProducts; ++e)
    for (int64_t group = 0; group < groups.count; ++group) {
      const int64_t squares = groups.begin[group + 1] - groups.begin[group];
      const int64_t at = (groups.begin[group] * kWinogradProducts + e * squares) * kLanes;
      kernels[squares](p, p.v + at, p.u + e * weight_product(p.outputs), p.m + at);
    }
}

/// A block of the bias; lanes past the last channel are zero.
Vector block_of(const float* bias, int64_t channels) {
  if (channels >= kLanes) return load<kLanes>(bias);
  float lanes[kLanes] = {};
  for (int64_t c = 0; c < channels; ++c) lanes[c] = bias[c];
  return load<kLanes>(lanes);
}

void transform_outputs(const WinogradImages& y, const WinogradTiles& tiles, const WinogradOutputs& out) {
  const int64_t image = y.height * y.width * kLanes;
  for (int64_t o = 0; o < out.outputs; ++o) {
    const int64_t block = out.first_output + o, channels = out.channels - block * kLanes;
    const Vector bias = out.bias == nullptr ? Vector{} : block_of(out.bias + block * kLanes, channels);
    float ones[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) ones[lane] = lane < channels ? 1.0F : 0.0F;
    const auto used = load<kLanes>(ones) != 0;
    TileWalk tile(tiles, true);
    for (int64_t t = 0; t < tiles.count; ++t, tile.next()) {
      const float* m = out.m + o * tiles.count * kWinogradProducts * kLanes + tile.offset;
      const Window<kWinogradOutputs> window(y, tile.row, tile.column);
      float* to = out.y + (tile.image * y.blocks + block) * image;
      winograd_square(
          winograd_outputs<Vector>,
          [&](int i, int j) { return load<kLanes>(m + (i * kWinogradInputs + j) * tile.product); },
          [&](int i, int j, Vector value) {
            if (!window.has(i, j)) return;
            value += bias;
            if (out.relu) value = value <= 0 ? Vector{} : value;
            store<kLanes>(to + window.offset(i, j), used ? value : Vector{});
          });
    }
  }
}

void transform_output_gradients(const WinogradImages& y, const float* data, const WinogradTiles& tiles,
                                int64_t first_output, int64_t blocks, float* z, double* sums) {
  const int64_t image = y.height * y.width * kLanes;
  for (int64_t block = 0; block < blocks; ++block) {
    Vector sum{};
    TileWalk tile(tiles, false);
    for (int64_t t = 0; t < tiles.count; ++t, tile.next()) {
      const Window<kWinogradOutputs> window(y, tile.row, tile.column);
      float* to = z + block * kWinogradProducts * winograd_row(tiles.count) * kLanes + tile.offset;
      Vector here{};
      window.with_reader(data + (tile.image * y.blocks + first_output + block) * image, [&](const auto& read) {
        winograd_square(
            winograd_output_gradients<Vector>,
            [&](int i, int j) {
              const Vector value = read(i, j);
              here += value;
              return value;
            },
            [&](int i, int j, const Vector& value) {
              store<kLanes>(to + (i * kWinogradInputs + j) * tile.product, value);
            });
      });
      sum += here;
    }
    if (sums != nullptr)
      for (int lane = 0; lane < kLanes; ++lane) sums[block * kLanes + lane] += sum[lane];
  }
}

/// One product of R channels of inputs and P blocks of outputs, over all squares.
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

template <int P>
void multiply_panel(const WinogradWeightProduct& p, int64_t e, const float* z, float* du) {
  const int64_t product = winograd_row(p.tiles) * kLanes, block = kWinogradProducts * product;
  for (int64_t input = 0; input < p.inputs; ++input)
    for (int c = 0; c < kLanes; c += kWeightRows)
      multiply_channels<kWeightRows, P>(p.tiles, p.v + input * block + e * product + c, z + e * product,
                                        du + input * weight_numbers(P) + e * weight_product(P) + c * P * kLanes);
}

void multiply_weights(const WinogradWeightProduct& p) {
  for (int64_t e = 0; e < kWinogradProducts; ++e)
    for (int64_t output = 0; output < p.outputs; output += kPanel) {
      const float* z = p.z + output * kWinogradProducts * winograd_row(p.tiles) * kLanes;
      float* du = p.du + output / kPanel * p.inputs * weight_numbers(kPanel);
      p.outputs - output >= kPanel ? multiply_panel<kPanel>(p, e, z, du) : multiply_panel<1>(p, e, z, du);
    }
}

void transform_weight_gradients(const float* du, int64_t parts, int64_t part_stride, int64_t output, int64_t outputs,
                                bool accumulate, float* gradient) {
  const int64_t product = weight_product(outputs);
  for (int i = 0; i < kLanes; ++i) {
    const float* from = du + (i * outputs + output) * kLanes;
    winograd_square(
        winograd_weight_gradients<Vector>,
        [&](int y, int x) {
          const float* at = from + (y * kWinogradInputs + x) * product;
          Vector sum = load<kLanes>(at);
          for (int64_t part = 1; part < parts; ++part) sum += load<kLanes>(at + part * part_stride);
          return sum;
        },
        [&](int y, int x, const Vector& value) {
          float* to = gradient + ((y * kWinogradWeights + x) * kLanes + i) * kLanes;
          store<kLanes>(to, accumulate ? load<kLanes>(to) + value : value);
        });
  }
}

}  // namespace

extern const WinogradKernels kWinograd;
const WinogradKernels kWinograd = {.lanes = kLanes,
                                   .panel = kPanel,
                                   .rows = kRows,
                                   .weight_numbers = weight_numbers,
                                   .inputs = transform_inputs,
                                   .weights = transform_weights,
                                   .multiply = multiply,
                                   .outputs = transform_outputs,
                                   .output_gradients = transform_output_gradients,
                                   .multiply_weights = multiply_weights,
                                   .weight_gradients = transform_weight_gradients};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
