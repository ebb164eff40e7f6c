#include "ops/bf16_lanes.h"
#include "ops/winograd_layout.h"
#include "ops/winograd_transforms.h"

// Reads tiles of Winograd's inputs from images and writes tiles of outputs to images, with their transforms.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// A square of S x S positions of an image; positions outside are zeros.
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

  /// Calls visit(read), where read(i, j) returns the number at that place.
  template <class Number, class Visit>
  void with_reader(const Number* image, const Visit& visit) const {
    const Number* at = image + origin_;
    if (whole_)
      visit([&](int i, int j) { return read_lanes<kLanes>(at + i * pitch_ + j * kLanes); });
    else
      visit([&](int i, int j) {
        return rows_[i] && columns_[j] ? read_lanes<kLanes>(at + i * pitch_ + j * kLanes) : Vector{};
      });
  }
  bool has(int i, int j) const { return rows_[i] && columns_[j]; }
  int64_t offset(int i, int j) const { return origin_ + i * pitch_ + j * kLanes; }

 private:
  int64_t origin_, pitch_;
  bool whole_, rows_[S], columns_[S];
};

/// How many tiles ahead of its use a window is prefetched. The windows of small images lie apart, so that the hardware
/// prefetches hardly any of them.
constexpr int kTilesAhead = 4;

/// Prefetches the windows of some tiles, S x S positions each, while the tiles before them are transformed.
template <int S, class Number, bool kToWrite>
class WindowPrefetch {
 public:
  /// `padding`: zeros around the images. `block`: the block of channels that is transformed.
  WindowPrefetch(const WinogradImages& images, const WinogradTiles& tiles, const Number* from, int64_t padding,
                 int64_t block)
      : images_(images), tile_(tiles, false), left_(tiles.count), from_(from), padding_(padding), block_(block) {
    for (int i = 0; i < kTilesAhead; ++i) next();
  }
  /// Called for each tile: prefetches the next window, if there is one.
  void next() {
    if (left_ == 0) return;
    const auto [top, bottom] = within(tile_.row - padding_, images_.height);
    const auto [begin, end] = within(tile_.column - padding_, images_.width);
    const Number* image = from_ + (tile_.image * images_.blocks + block_) * images_.height * images_.width * kLanes;
    for (int64_t row = top; row < bottom; ++row) {
      // Rows begin anywhere in a line, so the last number may lie in one more.
      const Number *at = image + (row * images_.width + begin) * kLanes, *last = at + (end - begin) * kLanes - 1;
      for (; at < last; at += kLineNumbers) __builtin_prefetch(at, kToWrite ? 1 : 0);
      __builtin_prefetch(last, kToWrite ? 1 : 0);
    }
    --left_;
    tile_.next();
  }

 private:
  static constexpr int64_t kLineNumbers = 64 / sizeof(Number);  ///< numbers of a line of the cache
  struct Range {
    int64_t begin, end;
  };
  /// S positions from `first` on, as far as they are within an image.
  static Range within(int64_t first, int64_t size) {
    return {first < 0 ? 0 : first, first + S < size ? first + S : size};
  }

  const WinogradImages& images_;
  TileWalk tile_;  ///< only its places are used
  int64_t left_;
  const Number* from_;
  int64_t padding_, block_;
};

/// A block of the bias; lanes past the last channel are zero.
Vector block_of(const float* bias, int64_t channels) {
  if (channels >= kLanes) return load<kLanes>(bias);
  float lanes[kLanes] = {};
  for (int64_t c = 0; c < channels; ++c) lanes[c] = bias[c];
  return load<kLanes>(lanes);
}

template <class Number>
void transform_inputs_of(const WinogradImages& x, const WinogradTiles& tiles, const WinogradInputs& in) {
  const auto* from = static_cast<const Number*>(in.x.at);
  const int64_t image = x.height * x.width * kLanes;
  const int64_t block_numbers = kWinogradProducts * (in.in_runs ? tiles.count : winograd_row(tiles.count)) * kLanes;
  for (int64_t block = 0; block < x.blocks; ++block) {
    TileWalk tile(tiles, in.in_runs);
    WindowPrefetch<kWinogradInputs, Number, false> prefetch(x, tiles, from, in.padding, block);
    for (int64_t t = 0; t < tiles.count; ++t, tile.next()) {
      prefetch.next();
      const Window<kWinogradInputs> window(x, tile.row - in.padding, tile.column - in.padding);
      float* to = in.v + block * block_numbers + tile.offset;
      window.with_reader(from + (tile.image * x.blocks + block) * image, [&](const auto& read) {
        transform_both_ways<InputTransform, Vector>(read, [&](int i, int j, const Vector& value) {
          store<kLanes>(to + (i * kWinogradInputs + j) * tile.product, value);
        });
      });
    }
  }
}

template <class Number>
void transform_outputs_of(const WinogradImages& y, const WinogradTiles& tiles, const WinogradOutputs& out) {
  const int64_t image = y.height * y.width * kLanes;
  for (int64_t o = 0; o < out.outputs; ++o) {
    const int64_t block = out.first_output + o, channels = out.channels - block * kLanes;
    const Vector bias = out.bias == nullptr ? Vector{} : block_of(out.bias + block * kLanes, channels);
    float ones[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) ones[lane] = lane < channels ? 1.0F : 0.0F;
    const auto used = load<kLanes>(ones) != 0;
    TileWalk tile(tiles, true);
    WindowPrefetch<kWinogradOutputs, Number, true> prefetch(y, tiles, static_cast<const Number*>(out.y.at), 0, block);
    for (int64_t t = 0; t < tiles.count; ++t, tile.next()) {
      prefetch.next();
      const float* m = out.m + o * tiles.count * kWinogradProducts * kLanes + tile.offset;
      const Window<kWinogradOutputs> window(y, tile.row, tile.column);
      Number* to = static_cast<Number*>(out.y.at) + (tile.image * y.blocks + block) * image;
      transform_both_ways<OutputTransform, Vector>(
          [&](int i, int j) { return load<kLanes>(m + (i * kWinogradInputs + j) * tile.product); },
          [&](int i, int j, Vector value) {
            if (!window.has(i, j)) return;
            value += bias;
            if (out.relu) value = value <= 0 ? Vector{} : value;
            write_lanes<kLanes>(to + window.offset(i, j), used ? value : Vector{});
          });
    }
  }
}

template <class Number>
void transform_output_gradients_of(const WinogradImages& y, const WinogradTiles& tiles,
                                   const WinogradOutputGradients& out) {
  const auto* from = static_cast<const Number*>(out.dy.at);
  const int64_t image = y.height * y.width * kLanes;
  for (int64_t o = 0; o < out.outputs; ++o) {
    Vector sum{};
    TileWalk tile(tiles, false);
    WindowPrefetch<kWinogradOutputs, Number, false> prefetch(y, tiles, from, 0, out.first_output + o);
    for (int64_t t = 0; t < tiles.count; ++t, tile.next()) {
      prefetch.next();
      const Window<kWinogradOutputs> window(y, tile.row, tile.column);
      float* to = out.z + o * kWinogradProducts * winograd_row(tiles.count) * kLanes + tile.offset;
      Vector here{};
      window.with_reader(from + (tile.image * y.blocks + out.first_output + o) * image, [&](const auto& read) {
        transform_both_ways<OutputGradientTransform, Vector>(
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
    if (out.sums != nullptr)
      for (int lane = 0; lane < kLanes; ++lane) out.sums[o * kLanes + lane] += sum[lane];
  }
}

}  // namespace

void transform_inputs(const WinogradImages& x, const WinogradTiles& tiles, const WinogradInputs& in) {
  in.x.is_bf16 ? transform_inputs_of<Bfloat16>(x, tiles, in) : transform_inputs_of<float>(x, tiles, in);
}

void transform_outputs(const WinogradImages& y, const WinogradTiles& tiles, const WinogradOutputs& out) {
  out.y.is_bf16 ? transform_outputs_of<Bfloat16>(y, tiles, out) : transform_outputs_of<float>(y, tiles, out);
}

void transform_output_gradients(const WinogradImages& y, const WinogradTiles& tiles,
                                const WinogradOutputGradients& out) {
  out.dy.is_bf16 ? transform_output_gradients_of<Bfloat16>(y, tiles, out)
                 : transform_output_gradients_of<float>(y, tiles, out);
}

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
