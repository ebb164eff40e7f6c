#include <type_traits>

#include "ops/cuda_kernels.h"
#include "ops/divisor.h"
#include "ops/winograd_transforms.h"
#include "ops/winograd_transforms_cuda.h"

namespace dptrain::ops::cuda {
namespace {

/// W neighboring channels, as the transforms take them. A thread keeps 36 of these in registers.
template <int W>
struct Lanes {
  Pack<float, W> pack;

  __device__ static Lanes load(const float* from) { return {Pack<float, W>::load(from)}; }
  __device__ void store(float* to) const { pack.store(to); }

  template <class Operation>
  __device__ static Lanes each(const Operation& operation) {
    Lanes result;
#pragma unroll
    for (int i = 0; i < W; ++i) result.pack.at[i] = operation(i);
    return result;
  }
  __device__ friend Lanes operator+(const Lanes& a, const Lanes& b) {
    return each([&](int i) { return a.pack.at[i] + b.pack.at[i]; });
  }
  __device__ friend Lanes operator-(const Lanes& a, const Lanes& b) {
    return each([&](int i) { return a.pack.at[i] - b.pack.at[i]; });
  }
  __device__ friend Lanes operator*(float a, const Lanes& b) {
    return each([&](int i) { return a * b.pack.at[i]; });
  }
};

/// How kernels walk over the rows of matrices, and over channels. Neighboring threads take neighboring channels.
///   block (lanes, rows), 256 threads
///   grid (packs of channels, rows); a thread takes every n-th row, n being the grid's threads along y
struct Walk {
  int64_t channels;
  int32_t rows;

  dim3 block(int width) const {
    unsigned lanes = 1;
    while (lanes < 32 && lanes * width < channels) lanes *= 2;
    return dim3(lanes, kThreads / lanes);
  }
  dim3 grid(int width) const {
    const dim3 threads = block(width);
    const auto blocks = [](int64_t items, unsigned of) { return (items + of - 1) / of; };
    const int64_t of_rows = blocks(rows, threads.y);
    constexpr int64_t kMost = 65535;
    return dim3(static_cast<unsigned>(blocks(channels, threads.x * width)),
                static_cast<unsigned>(of_rows < kMost ? of_rows : kMost));
  }
  __device__ int64_t channel(int width) const { return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width; }
  template <class Body>
  __device__ void for_each_row(const Body& body) const {
    const auto step = static_cast<int32_t>(gridDim.y * blockDim.y);
    for (auto row = static_cast<int32_t>(blockIdx.y * blockDim.y + threadIdx.y); row < rows; row += step) body(row);
  }
};

/// Where the squares of tiles are in images.
struct Squares {
  int32_t tiles;
  Divisor<int32_t> of_image, columns;
  int32_t height, width;
  int32_t before;  ///< rows and columns of zeros with which a square of the first tiles begins

  Squares(const WinogradTiling& tiling, const Shape& images, int64_t padding)
      : tiles(static_cast<int32_t>(tiling.count())),
        of_image(static_cast<int32_t>(tiling.rows * tiling.columns)),
        columns(static_cast<int32_t>(tiling.columns)),
        height(static_cast<int32_t>(images[2])),
        width(static_cast<int32_t>(images[3])),
        before(static_cast<int32_t>(padding)) {}
};

/// The square of one tile.
struct Square {
  int32_t row, column;  ///< where it begins; -1 is a row or a column of padding
  int32_t height, width;
  int64_t channels;
  int64_t origin;  ///< offset of the image

  __device__ Square(const Squares& squares, int32_t tile, int64_t channels_)
      : height(squares.height), width(squares.width), channels(channels_) {
    const int32_t image = squares.of_image.quotient(tile), in_image = tile - image * squares.of_image.by();
    const int32_t tile_row = squares.columns.quotient(in_image);
    const int32_t tile_column = in_image - tile_row * squares.columns.by();
    row = tile_row * kWinogradOutputs - squares.before;
    column = tile_column * kWinogradOutputs - squares.before;
    origin = int64_t{image} * height * width * channels;
  }
  __device__ bool has(int i, int j) const {
    return row + i >= 0 && row + i < height && column + j >= 0 && column + j < width;
  }
  __device__ int64_t offset(int i, int j) const { return origin + (int64_t{row + i} * width + column + j) * channels; }
};

template <class Transform, int W>
__global__ void __launch_bounds__(kThreads)
    images_kernel(Walk walk, Squares squares, const float* images, float* products) {
  const int64_t channel = walk.channel(W);
  if (channel >= walk.channels) return;
  const int64_t product = walk.rows * walk.channels;
  walk.for_each_row([&](int32_t tile) {
    float* const to = products + tile * walk.channels + channel;
    const Square square(squares, tile, walk.channels);
    const bool is_tile = tile < squares.tiles;
    transform_both_ways<Transform, Lanes<W>>(
        [&](int i, int j) {
          return is_tile && square.has(i, j) ? Lanes<W>::load(images + square.offset(i, j) + channel) : Lanes<W>{};
        },
        [&](int i, int j, const Lanes<W>& value) { value.store(to + (i * kWinogradInputs + j) * product); });
  });
}

template <int W>
__global__ void __launch_bounds__(kThreads)
    outputs_kernel(Walk walk, Squares squares, const float* products, const float* bias, bool relu, float* images) {
  const int64_t channel = walk.channel(W);
  if (channel >= walk.channels) return;
  const int64_t product = walk.rows * walk.channels;
  const Lanes<W> added = bias == nullptr ? Lanes<W>{} : Lanes<W>::load(bias + channel);
  walk.for_each_row([&](int32_t tile) {
    if (tile >= squares.tiles) return;
    const float* const from = products + tile * walk.channels + channel;
    const Square square(squares, tile, walk.channels);
    transform_both_ways<OutputTransform, Lanes<W>>(
        [&](int i, int j) { return Lanes<W>::load(from + (i * kWinogradInputs + j) * product); },
        [&](int i, int j, const Lanes<W>& value) {
          if (!square.has(i, j)) return;
          const Lanes<W> sum = value + added;
          // Written so that a NaN stays one.
          const Lanes<W> result =
              Lanes<W>::each([&](int lane) { return relu && sum.pack.at[lane] <= 0 ? 0.f : sum.pack.at[lane]; });
          result.store(images + square.offset(i, j) + channel);
        });
  });
}

constexpr int kTaps = kWinogradWeights * kWinogradWeights;

/// A row is an output channel here, and in weight_gradient_kernel.
template <int W>
__global__ void __launch_bounds__(kThreads) weights_kernel(Walk walk, const float* weight, bool turned, float* u) {
  const int64_t channel = walk.channel(W);
  if (channel >= walk.channels) return;
  const int64_t product = walk.rows * walk.channels;
  walk.for_each_row([&](int32_t output) {
    const float* const from = weight + output * kTaps * walk.channels + channel;
    float* const to = u + output * walk.channels + channel;
    transform_both_ways<WeightTransform, Lanes<W>>(
        [&](int i, int j) {
          const int tap = i * kWinogradWeights + j;
          return Lanes<W>::load(from + (turned ? kTaps - 1 - tap : tap) * walk.channels);
        },
        [&](int i, int j, const Lanes<W>& value) { value.store(to + (i * kWinogradInputs + j) * product); });
  });
}

template <int W>
__global__ void __launch_bounds__(kThreads)
    weight_gradient_kernel(Walk walk, int64_t parts, const float* du, float* gradient) {
  const int64_t channel = walk.channel(W);
  if (channel >= walk.channels) return;
  const int64_t part_size = walk.rows * walk.channels;
  walk.for_each_row([&](int32_t output) {
    const float* const from = du + output * walk.channels + channel;
    float* const to = gradient + output * kTaps * walk.channels + channel;
    Lanes<W> sums[kWinogradInputs][kWinogradInputs];
#pragma unroll
    for (int i = 0; i < kWinogradInputs; ++i)
#pragma unroll
      for (int j = 0; j < kWinogradInputs; ++j)
        sums[i][j] = Lanes<W>::load(from + (i * kWinogradInputs + j) * parts * part_size);
    // All 36 loads of a part are in flight at once.
    for (int64_t part = 1; part < parts; ++part) {
#pragma unroll
      for (int i = 0; i < kWinogradInputs; ++i)
#pragma unroll
        for (int j = 0; j < kWinogradInputs; ++j)
          sums[i][j] = sums[i][j] + Lanes<W>::load(from + ((i * kWinogradInputs + j) * parts + part) * part_size);
    }
    transform_both_ways<WeightGradientTransform, Lanes<W>>(
        [&](int i, int j) { return sums[i][j]; },
        [&](int i, int j, const Lanes<W>& value) { value.store(to + (i * kWinogradWeights + j) * walk.channels); });
  });
}

/// Calls f(std::integral_constant<int, W>()), where W is the number of channels that a thread takes: two if all
/// addresses allow it, else one.
template <class F>
void with_width(int64_t channels, std::initializer_list<const void*> pointers, const F& f) {
  bool in_pairs = channels % 2 == 0;
  for (const void* pointer : pointers) in_pairs = in_pairs && reinterpret_cast<uintptr_t>(pointer) % 8 == 0;
  in_pairs ? f(std::integral_constant<int, 2>()) : f(std::integral_constant<int, 1>());
}

/// The walk over matrices [36, rows, channels], or over parts of them.
Walk walk_over(const Tensor& matrices) {
  return {.channels = matrices.shape()[2], .rows = static_cast<int32_t>(matrices.shape()[1])};
}

template <class Transform>
void transform_images(const char* name, const Tensor& images, const WinogradTiling& tiling, int64_t padding,
                      const Tensor& products) {
  const Walk walk = walk_over(products);
  const Squares squares(tiling, images.shape(), padding);
  with_width(walk.channels, {images.raw(), products.raw()}, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    launch(name, products, walk.grid(kWidth), walk.block(kWidth), images_kernel<Transform, kWidth>, walk, squares,
           images.data<float>(), products.data<float>());
  });
}

}  // namespace

void transform_inputs(const Tensor& x, const WinogradTiling& tiling, int64_t padding, const Tensor& v) {
  transform_images<InputTransform>("winograd inputs", x, tiling, padding, v);
}

void transform_output_gradients(const Tensor& dy, const WinogradTiling& tiling, const Tensor& z) {
  transform_images<OutputGradientTransform>("winograd output gradients", dy, tiling, 0, z);
}

void transform_outputs(const Tensor& m, const WinogradTiling& tiling, const Tensor& bias, bool relu, const Tensor& y) {
  const Walk walk = walk_over(m);
  const Squares squares(tiling, y.shape(), 0);
  const float* const added = data_or_null<float>(bias);
  with_width(walk.channels, {m.raw(), added, y.raw()}, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    launch("winograd outputs", y, walk.grid(kWidth), walk.block(kWidth), outputs_kernel<kWidth>, walk, squares,
           m.data<float>(), added, relu, y.data<float>());
  });
}

void transform_weights(const Tensor& weight, bool turned, const Tensor& u) {
  const Walk walk = walk_over(u);
  with_width(walk.channels, {weight.raw(), u.raw()}, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    launch("winograd weights", u, walk.grid(kWidth), walk.block(kWidth), weights_kernel<kWidth>, walk,
           weight.data<float>(), turned, u.data<float>());
  });
}

void transform_weight_gradient(const Tensor& du, const Tensor& gradient) {
  const Walk walk = walk_over(du);
  with_width(walk.channels, {du.raw(), gradient.raw()}, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    launch("winograd weight gradient", gradient, walk.grid(kWidth), walk.block(kWidth), weight_gradient_kernel<kWidth>,
           walk, du.shape()[0] / kWinogradProducts, du.data<float>(), gradient.data<float>());
  });
}

}  // namespace dptrain::ops::cuda
