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

/// Positions that are packed and added up at once: what 32 channels take stays in the second-level cache, and sums of
/// sums lose less than one long sum. It mustn't depend on the number of threads, as the order of sums does on it.
constexpr int64_t kChunkPositions = 2048;

/// The grid of the output's gradient: the same positions, without a stride or a border before them.
ConvolutionGrid gradient_grid(const ConvolutionGrid& grid) {
  return {.phases = {{0, 0}}, .outputs = {}, .rows = grid.rows, .columns = grid.columns};
}

/// The positions of a chunk of images, packed by all threads.
class PackedChunk {
 public:
  PackedChunk(const ConvolutionGrid& grid, const Tensor& images, int64_t length)
      : length_(length),
        memory_(packed_memory(images.device(), PackedImages::elements(grid, images, length))),
        positions_(grid, images, length, memory_.data<Bfloat16>()) {}

  /// Images [begin, end).
  void pack(int64_t begin, int64_t end) {
    if (end - begin != packed_) memory_.fill_zero();
    packed_ = end - begin;
    parallel_for(memory_.device(), packed_, [&](int64_t i) { positions_.pack(begin + i, i); });
  }
  /// Calls body(row, position) for 32 positions at a time of all long rows of 32 channels.
  template <class Body>
  void for_each_step(const Body& body) const {
    const int64_t steps = length_ / 32;
    parallel_for(memory_.device(), rows() * steps, [&](int64_t i) { body(i / steps, i % steps * 32); });
  }

  int64_t planes() const { return positions_.planes(); }
  int64_t rows() const { return planes() * positions_.plane() / (length_ * 32); }
  const Bfloat16* row(int64_t row) const { return positions_.data() + row * length_ * 32; }

 private:
  int64_t length_, packed_ = -1;
  Tensor memory_;
  PackedImages positions_;
};

/// What taps read, as pairs of positions: once from even positions on and once from odd ones, so that each offset finds
/// its pairs. For each long row [2 starts][2 halves of the channels][length / 2 pairs, 16 channels, 2].
class PairedInput {
 public:
  PairedInput(const ConvolutionGrid& grid, const Tensor& x, int64_t length)
      : length_(length), chunk_(grid, x, length + 32), memory_(packed_memory(x.device(), chunk_.rows() * row())) {}

  void pack(int64_t begin, int64_t end) {
    chunk_.pack(begin, end);
    chunk_.for_each_step([&](int64_t row, int64_t position) {
      if (position == length_) return;
      const Bfloat16* from = chunk_.row(row) + position * 32;
      Bfloat16* to = memory_.data<Bfloat16>() + row * this->row() + position * 16;
      weight_gradient_tile_kernels()->pack_pairs(from, to, half());
      weight_gradient_tile_kernels()->pack_pairs(from + 32, to + 2 * half(), half());
    });
  }

  int64_t planes() const { return chunk_.planes(); }
  const Bfloat16* plane(int64_t plane) const {
    return memory_.data<Bfloat16>() + plane * (chunk_.rows() / planes()) * row();
  }
  /// Where in a plane half of its channels begins as a tap reads it.
  int64_t start(const ConvolutionGrid::Tap& tap, int64_t half_of_channels) const {
    return tap.phase * row() + (tap.offset % 2 * 2 + half_of_channels) * half() + tap.offset / 2 * 32;
  }

 private:
  int64_t half() const { return length_ * 16; }
  int64_t row() const { return 4 * half(); }

  int64_t length_;
  PackedChunk chunk_;
  Tensor memory_;
};

/// The output's gradient as rows of positions.
class GradientRows {
 public:
  GradientRows(const ConvolutionGrid& grid, const Tensor& gradient, int64_t length)
      : length_(length),
        chunk_(grid, gradient, length),
        memory_(packed_memory(gradient.device(), chunk_.rows() * length * 32)) {}

  void pack(int64_t begin, int64_t end) {
    chunk_.pack(begin, end);
    chunk_.for_each_step([&](int64_t row, int64_t position) {
      weight_gradient_tile_kernels()->pack_rows(chunk_.row(row) + position * 32,
                                                memory_.data<Bfloat16>() + (row * length_ + position) * 32);
    });
  }

  int64_t planes() const { return chunk_.planes(); }
  const Bfloat16* plane(int64_t plane) const { return memory_.data<Bfloat16>() + plane * length_ * 32; }
  void add_to(double* bias_sums) const {
    parallel_for(memory_.device(), planes(), [&](int64_t plane) {
      weight_gradient_tile_kernels()->add_positions(chunk_.row(plane), length_, bias_sums + plane * 32);
    });
  }

 private:
  int64_t length_;
  PackedChunk chunk_;
  Tensor memory_;
};

/// The passes that compute all of a window's weights, of one or both halves of 32 input channels; `window`: elements of
/// a block of 16. Two taps that read the same pairs share the loads of their lines; a tap without such another is
/// computed for both halves, or with what else is left.
std::vector<WeightGradientPass> passes_of(const ConvolutionGrid& grid, const PairedInput& input, int64_t halves,
                                          int64_t window) {
  std::vector<ConvolutionGrid::Tap> taps = grid.outputs[0].taps;
  const auto group = [](const ConvolutionGrid::Tap& tap) { return std::pair(tap.phase, tap.offset % 2); };
  std::ranges::stable_sort(taps, {}, group);
  std::vector<std::pair<ConvolutionGrid::Tap, int64_t>> paired, single;
  for (size_t first = 0, last = 0; first < taps.size(); first = last) {
    while (last < taps.size() && group(taps[last]) == group(taps[first])) ++last;
    const size_t even = first + (last - first) / 2 * 2;
    for (int64_t half = 0; half < halves; ++half)
      for (size_t t = first; t < last; ++t) (t < even ? paired : single).emplace_back(taps[t], half);
  }
  paired.insert(paired.end(), single.begin(), single.end());
  std::vector<WeightGradientPass> passes;
  for (size_t i = 0; i < paired.size(); ++i) {
    const auto& [tap, half] = paired[i];
    const int64_t right = input.start(tap, half), block = half * window + tap.weight * 256;
    if (i % 2 == 0) passes.push_back({.right = {right, right}, .block = {block, -1}});
    passes.back().right[i % 2] = right;
    passes.back().block[i % 2] = block;
  }
  return passes;
}

/// sums = the gradient of weights in oihw16i16o, f32, or sums += it; bias_sums += that of the bias, where it isn't
/// null.
void add_gradient(const Tensor& x, const Tensor& output_gradient, const Conv2dOptions& options, bool accumulate,
                  const Tensor& sums, double* bias_sums) {
  const Shape& weight = sums.shape();
  const auto grid = forward_grid(x.shape(), weight, output_gradient.shape(), options), of_y = gradient_grid(grid);
  const int64_t images = x.shape()[0];
  const int64_t chunk = std::clamp(kChunkPositions / grid.image(), int64_t{1}, images);
  const int64_t length = (grid.length(chunk) + 31) / 32 * 32;
  PairedInput input(grid, x, length);
  GradientRows gradient(of_y, output_gradient, length);
  const int64_t window = weight[2] * weight[3] * 256, inputs = (weight[1] + 15) / 16, outputs = (weight[0] + 15) / 16;
  const auto whole = passes_of(grid, input, 2, window), half = passes_of(grid, input, 1, window);
  for (int64_t begin = 0; begin < images; begin += chunk) {
    const int64_t end = std::min(images, begin + chunk);
    input.pack(begin, end);
    gradient.pack(begin, end);
    parallel_for(x.device(), input.planes() * gradient.planes(), [&](int64_t i) {
      const int64_t in = i / gradient.planes(), out = i % gradient.planes();
      const auto& passes = 2 * in + 1 < inputs ? whole : half;
      weight_gradient_tile_kernels()->multiply({.steps = (grid.span(grid.outputs[0], end - begin) + 31) / 32,
                                                .left = gradient.plane(out),
                                                .right = input.plane(in),
                                                .passes = passes.data(),
                                                .pass_count = static_cast<int64_t>(passes.size()),
                                                .sums = sums.data<float>() + 2 * (out * inputs + in) * window,
                                                .output_blocks = std::min(int64_t{2}, outputs - 2 * out),
                                                .output_stride = inputs * window,
                                                .accumulate = accumulate || begin > 0});
    });
    if (bias_sums != nullptr) gradient.add_to(bias_sums);
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
  const Tensor incoming = bf16_images(output_gradient, layout);
  const int64_t images = x.shape()[0], step = narrow ? images_of_columns(incoming.shape()) : images;
  for (int64_t begin = 0; begin < images; begin += step) {
    const int64_t end = std::min(images, begin + step);
    const Tensor source = x.samples(begin, end), from = incoming.samples(begin, end);
    add_gradient(
        narrow ? image_columns(source, gradients.weight.shape(), from.shape(), options) : bf16_images(source, layout),
        from, narrow ? Conv2dOptions{} : options, (direct && gradients.accumulate_weight) || begin > 0, sums,
        with_bias ? bias_sums.data() : nullptr);
  }
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
