#include <algorithm>

#include "device/parallel_for.h"
#include "ops/add.h"
#include "ops/conv2d_cpu.h"
#include "ops/conv2d_tiles_cpu.h"
#include "ops/image_columns_cpu.h"
#include "ops/reorder.h"
#include "ops/tile_images_cpu.h"
#include "ops/tile_weight_gradient.h"

namespace dptrain::ops::cpu {
namespace {

/// Images that are packed at once, by their channels and positions. It mustn't depend on the number of threads, as the
/// order of sums does on it.
constexpr int64_t kChunkElements = 512 * 1024;

/// The grid of the output's gradient: the same positions, without a stride or a border before them.
ConvolutionGrid gradient_grid(const ConvolutionGrid& grid) {
  return {.phases = {{0, 0}}, .outputs = grid.outputs, .rows = grid.rows, .columns = grid.columns};
}

/// A chunk of images, packed by all threads: first its positions, then rows or pairs of them.
class PackedChunk {
 public:
  PackedChunk(const ConvolutionGrid& grid, const Tensor& images, int64_t length)
      : images_(images),
        length_(length),
        positions_memory_(packed_memory(images.device(), PackedImages::elements(grid, images, length))),
        turned_memory_(packed_memory(images.device(), PackedImages::elements(grid, images, length))),
        positions_(grid, images, length, positions_memory_.data<Bfloat16>()) {}

  /// Packs images [begin, end). `turn` brings 32 positions to a row of 32 channels.
  template <class Turn>
  void pack(int64_t begin, int64_t end, const Turn& turn) {
    if (end - begin != packed_) positions_memory_.fill_zero();
    packed_ = end - begin;
    parallel_for(images_.device(), packed_, [&](int64_t i) { positions_.pack(begin + i, i); });
    parallel_for(images_.device(), rows() * length_ / 32, [&](int64_t i) {
      const int64_t row = i / (length_ / 32), position = i % (length_ / 32) * 32;
      turn(positions_.data() + (row * length_ + position) * 32, turned_memory_.data<Bfloat16>() + row * length_ * 32,
           position);
    });
  }

  int64_t planes() const { return positions_.planes(); }
  /// Positions of 32 channels, and the same turned.
  const Bfloat16* positions(int64_t plane) const { return positions_.data() + plane * positions_.plane(); }
  const Bfloat16* turned(int64_t plane) const { return turned_memory_.data<Bfloat16>() + plane * positions_.plane(); }

 private:
  int64_t rows() const { return planes() * positions_.plane() / (length_ * 32); }

  const Tensor& images_;
  int64_t length_, packed_ = -1;
  Tensor positions_memory_, turned_memory_;
  PackedImages positions_;
};

/// sums = the gradient of weights in oihw16i16o, f32, or sums += it; bias_sums += that of the bias, where it isn't
/// null.
void add_gradient(const Tensor& x, const Tensor& output_gradient, const Conv2dOptions& options, bool accumulate,
                  const Tensor& sums, double* bias_sums) {
  const WeightGradientTileKernels& kernels = *weight_gradient_tile_kernels();
  const Shape& weight = sums.shape();
  const auto grid = forward_grid(x.shape(), weight, output_gradient.shape(), options), of_y = gradient_grid(grid);
  const int64_t images = x.shape()[0], widest = std::max(weight[0], weight[1]) + 31;
  const int64_t chunk = std::clamp(kChunkElements / (widest / 32 * 32 * grid.image()), int64_t{1}, images);
  // An odd multiple of cache lines: the rows of a tile then lie in unlike sets of the cache.
  const int64_t length = (grid.length(chunk) + 63) / 64 * 64 + 32;
  PackedChunk left(grid, x, length), right(of_y, output_gradient, length);
  std::vector<int64_t> taps, starts;
  for (const auto& tap : grid.outputs[0].taps) {
    taps.push_back(tap.weight);
    starts.push_back(tap.phase * length * 32 + tap.offset);
  }
  const int64_t window = weight[2] * weight[3] * 256, inputs = (weight[1] + 15) / 16, outputs = (weight[0] + 15) / 16;
  for (int64_t begin = 0; begin < images; begin += chunk) {
    const int64_t end = std::min(images, begin + chunk);
    left.pack(begin, end, [&](const Bfloat16* from, Bfloat16* row, int64_t position) {
      kernels.pack_rows(from, row + position, length);
    });
    right.pack(begin, end, [&](const Bfloat16* from, Bfloat16* row, int64_t position) {
      kernels.pack_pairs(from, row + position * 32);
    });
    const int64_t steps = (grid.span(grid.outputs[0], end - begin) + 31) / 32;
    parallel_for(x.device(), left.planes() * right.planes(), [&](int64_t i) {
      const int64_t input = 2 * (i % left.planes()), output = 2 * (i / left.planes());
      kernels.multiply({.steps = steps,
                        .left = left.turned(input / 2),
                        .right = right.turned(output / 2),
                        .row_length = length,
                        .tap_starts = starts.data(),
                        .taps = taps.data(),
                        .tap_count = static_cast<int64_t>(taps.size()),
                        .accumulate = accumulate || begin > 0,
                        .sums = sums.data<float>() + (output * inputs + input) * window,
                        .input_stride = input + 1 < inputs ? window : 0,
                        .output_stride = output + 1 < outputs ? inputs * window : 0});
    });
    if (bias_sums != nullptr)
      parallel_for(x.device(), right.planes(), [&](int64_t plane) {
        kernels.add_positions(right.positions(plane), steps * 32, bias_sums + plane * 32);
      });
  }
}

}  // namespace

void conv2d_backward_weights_by_tiles(const Tensor& x, const Tensor& output_gradient,
                                      const Conv2dWeightGradients& gradients, const Conv2dOptions& options) {
  const bool with_bias = gradients.bias.defined(), narrow = fits_columns(gradients.weight);
  if (x.elements() == 0) {
    if (!gradients.accumulate_weight) gradients.weight.fill_zero();
    if (with_bias && !gradients.accumulate_bias) gradients.bias.fill_zero();
    return;
  }
  const Tensor weight = narrow ? weights_of_columns(gradients.weight) : gradients.weight;
  const bool direct = weight.layout() == Layout::oihw16i16o;
  const Tensor sums = direct ? weight
                             : Tensor::empty(x.device(), weight.shape(),
                                             {.layout = Layout::oihw16i16o, .purpose = MemoryPurpose::workspace});
  const Layout layout = conv2d_output_layout(x.shape()[1], weight.shape()[0]);
  std::vector<double> bias_sums(static_cast<size_t>((weight.shape()[0] + 31) / 32 * 32));
  add_gradient(
      narrow ? image_columns(x, gradients.weight.shape(), output_gradient.shape(), options) : bf16_images(x, layout),
      bf16_images(output_gradient, layout), narrow ? Conv2dOptions{} : options, direct && gradients.accumulate_weight,
      sums, with_bias ? bias_sums.data() : nullptr);
  if (!direct && gradients.accumulate_weight)
    add_into(weight, reorder(sums, weight.layout(), MemoryPurpose::workspace));
  else if (!direct)
    reorder_into(sums, weight);
  if (!with_bias) return;
  for (int64_t o = 0; o < weight.shape()[0]; ++o) {
    float& bias = gradients.bias.data<float>()[o];
    bias = static_cast<float>(bias_sums[static_cast<size_t>(o)] + (gradients.accumulate_bias ? bias : 0.f));
  }
}

}  // namespace dptrain::ops::cpu
