#include "ops/conv2d_tiles_cpu.h"

#include <algorithm>

#include "device/parallel_for.h"
#include "ops/conv2d_cpu.h"
#include "ops/f32_operands.h"
#include "ops/image_columns_cpu.h"
#include "ops/reorder.h"
#include "ops/tile_images_cpu.h"

namespace dptrain::ops::cpu {
namespace {

/// Elements of the images that a thread packs at once: together with their weights they stay in its second-level cache.
constexpr int64_t kGroupElements = 512 * 1024;

/// The weights packed as right tiles, for each of a grid's products.
class PackedWeights {
 public:
  /// `weight`: bf16, in oihw16i16o. `exchanged`: the products compute input channels.
  PackedWeights(const Tensor& weight, bool exchanged, const ConvolutionGrid& grid) {
    const ConvolutionTileKernels& kernels = *convolution_tile_kernels();
    const Shape& shape = weight.shape();
    const auto blocks = [](int64_t channels, int64_t block) { return (channels + block - 1) / block; };
    const int64_t columns = blocks(shape[exchanged ? 1 : 0], 32), planes = blocks(shape[exchanged ? 0 : 1], 32);
    int64_t taps = 0;
    for (const auto& outputs : grid.outputs) {
      starts_.push_back(columns * planes * taps * kernels.step);
      taps += static_cast<int64_t>(outputs.taps.size());
    }
    memory_ = packed_memory(weight.device(), columns * planes * taps * kernels.step);
    for (size_t product = 0; product < grid.outputs.size(); ++product) {
      std::vector<int64_t> window;
      for (const auto& tap : grid.outputs[product].taps) window.push_back(tap.weight);
      const auto count = static_cast<int64_t>(window.size());
      parallel_for(weight.device(), columns, [&](int64_t column) {
        kernels.pack_weights(
            {.weights = weight.data<Bfloat16>(),
             .output_blocks = blocks(shape[0], 16),
             .input_blocks = blocks(shape[1], 16),
             .window = shape[2] * shape[3],
             .exchanged = exchanged,
             .taps = window.data(),
             .tap_count = count,
             .first = 2 * column,
             .to = memory_.data<Bfloat16>() + starts_[product] + column * planes * count * kernels.step});
      });
    }
  }
  const Bfloat16* of(size_t product) const { return memory_.data<Bfloat16>() + starts_[product]; }

 private:
  std::vector<int64_t> starts_;
  Tensor memory_;
};

/// Returns each position's offset from the group's first output in elements, or -1 if it is no output.
std::vector<int64_t> places_of(const ConvolutionGrid& grid, const ConvolutionGrid::Outputs& outputs, const Tensor& y,
                               int64_t images) {
  const ImageStrides strides = image_strides(y);
  std::vector<int64_t> places(static_cast<size_t>(images * grid.image()), -1);
  for (int64_t image = 0; image < images; ++image)
    for (int64_t i = 0; i < outputs.height; ++i)
      for (int64_t j = 0; j < outputs.width; ++j) {
        const int64_t row = outputs.stride * i + outputs.row, column = outputs.stride * j + outputs.column;
        places[static_cast<size_t>(image * grid.image() + i * grid.columns + j)] =
            image * strides.image + (row * y.shape()[3] + column) * strides.pixel;
      }
  return places;
}

/// A group of images as packed positions: [32 channels][phase][length][32].
struct PackedRows {
  const TileRows& rows;
  int64_t length;
  Bfloat16* memory;

  void pack(int64_t begin, int64_t end) const {
    for (int64_t i = 0; i < rows.count(); ++i)
      convolution_tile_kernels()->pack_positions(rows.row(i, begin, end), length, memory + i * length * 32);
  }
};

struct Added {
  const float* bias = nullptr;
  bool relu = false;
};

/// All of a product's inputs except its images.
struct Product {
  const ConvolutionGrid::Outputs* outputs;
  const Bfloat16* weights;
  std::vector<int64_t> places, starts;
};

/// Computes the outputs of `images` images from `first` on.
void multiply(const ConvolutionGrid& grid, const PackedRows& source, const Product& product, int64_t images,
              const Added& added, const Tensor& y, int64_t first) {
  const ImageStrides strides = image_strides(y);
  convolution_tile_kernels()->multiply({.positions = grid.span(*product.outputs, images),
                                        .source = source.memory,
                                        .plane = source.rows.phases() * source.length * 32,
                                        .planes = source.rows.planes(),
                                        .tap_starts = product.starts.data(),
                                        .tap_count = static_cast<int64_t>(product.starts.size()),
                                        .weights = product.weights,
                                        .bias = added.bias,
                                        .relu = added.relu,
                                        .y = y.data<Bfloat16>() + first * strides.image,
                                        .y_strides = strides,
                                        .places = product.places.data()});
}

/// Computes y = the products of x and the packed weights, a group of images at a time. Both are in nhwc or nchw16c.
void convolve(const Tensor& x, const PackedWeights& weights, const ConvolutionGrid& grid, const Added& added,
              const Tensor& y) {
  Device& device = x.device();
  const int64_t images = x.shape()[0], threads = std::min(int64_t{device.threads()}, images);
  const TileRows rows(grid, x);
  // If no output reads the source, it has no rows.
  const int64_t of_image = std::max(int64_t{1}, rows.count() * grid.length(1) * 32);
  const int64_t group = std::clamp(kGroupElements / of_image, int64_t{1}, (images + threads - 1) / threads);
  const int64_t length = grid.length(group), room = rows.count() * length * 32;
  const Tensor memory = packed_memory(device, room * threads);
  std::vector<Product> products;
  for (size_t i = 0; i < grid.outputs.size(); ++i) {
    Product product{.outputs = &grid.outputs[i],
                    .weights = weights.of(i),
                    .places = places_of(grid, grid.outputs[i], y, group),
                    .starts = {}};
    for (const auto& tap : grid.outputs[i].taps) product.starts.push_back((tap.phase * length + tap.offset) * 32);
    products.push_back(std::move(product));
  }
  parallel_parts(device, images, 1, [&](int64_t part, int64_t begin, int64_t end) {
    const PackedRows source{.rows = rows, .length = length, .memory = memory.data<Bfloat16>() + part * room};
    for (int64_t first = begin; first < end; first += group) {
      const int64_t count = std::min(group, end - first);
      source.pack(first, first + count);
      for (const Product& product : products) multiply(grid, source, product, count, added, y, first);
    }
  });
}

/// Returns the weights in the form that the products read.
Tensor blocked(const Tensor& weight) {
  return converted(weight, {.dtype = DType::bf16, .layout = Layout::oihw16i16o, .purpose = MemoryPurpose::workspace});
}

}  // namespace

bool convolves_by_tiles(DType dtype, const Conv2dOptions& options) {
  return dtype == DType::bf16 && options.algorithm != ConvolutionAlgorithm::winograd &&
         convolution_tile_kernels() != nullptr;
}

Tensor conv2d_forward_by_tiles(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                               const Conv2dOptions& options) {
  const Layout layout = conv2d_output_layout(weight.shape());
  const Tensor y = Tensor::empty(x.device(), output, {.dtype = x.dtype(), .layout = layout});
  if (y.elements() == 0) return y;
  const Tensor added = bias.defined() ? as_f32(bias, bias.layout()) : bias;
  const Added with{.bias = added.defined() ? added.data<float>() : nullptr, .relu = options.relu};
  const auto convolve_with = [&](const Tensor& source, const Tensor& factor, const Conv2dOptions& window,
                                 const Tensor& to) {
    const auto grid = forward_grid(source.shape(), factor.shape(), to.shape(), window);
    convolve(source, PackedWeights(factor, false, grid), grid, with, to);
  };
  if (!fits_columns(weight)) {
    convolve_with(bf16_images(x, layout), blocked(weight), options, y);
    return y;
  }
  const Tensor factor = blocked(weights_of_columns(weight));
  for (int64_t begin = 0, step = images_of_columns(output); begin < output[0]; begin += step) {
    const int64_t end = std::min(output[0], begin + step);
    const Tensor part = y.samples(begin, end);
    convolve_with(image_columns(x.samples(begin, end), weight.shape(), part.shape(), options), factor, {}, part);
  }
  return y;
}

Tensor conv2d_backward_data_by_tiles(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                                     const Conv2dOptions& options) {
  const Layout layout = conv2d_output_layout(weight.shape());
  const Tensor gradient = Tensor::empty(x.device, x.shape, {.dtype = x.dtype, .layout = layout});
  if (gradient.elements() == 0) return reorder(gradient, x.layout);
  const Tensor incoming = bf16_images(output_gradient, layout);
  const auto grid = backward_data_grid(x.shape, weight.shape(), incoming.shape(), options);
  convolve(incoming, PackedWeights(blocked(weight), true, grid), grid, {}, gradient);
  return reorder(gradient, x.layout);
}

}  // namespace dptrain::ops::cpu
