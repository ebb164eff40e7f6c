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
constexpr int64_t kChunkPositions = 4096;

struct Range {
  int64_t begin, end;
};

/// The grid of the output's gradient: the same positions, without a stride or a border before them.
ConvolutionGrid gradient_grid(const ConvolutionGrid& grid) {
  return {.phases = {{0, 0}}, .outputs = {}, .rows = grid.rows, .columns = grid.columns};
}

/// Products of 32 by 32 channels, or parts of them, that all threads share, if there are so many.
constexpr int64_t kProducts = 8;

/// Positions that a thread packs at once: of a few planes, too, there are some for every thread.
constexpr int64_t kPackedPositions = 256;

/// What taps read, as pairs of positions: once from even positions on and once from odd ones, so that each offset finds
/// its pairs. For each long row [2 starts][2 halves of the channels][length / 2 pairs, 16 channels, 2].
class PairedInput {
 public:
  PairedInput(const ConvolutionGrid& grid, const Tensor& x, int64_t length)
      : length_(length), rows_(grid, x), memory_(packed_memory(x.device(), rows_.count() * row())) {}

  int64_t planes() const { return rows_.planes(); }
  int64_t rows() const { return rows_.count(); }
  const Bfloat16* plane(int64_t plane) const { return memory_.data<Bfloat16>() + plane * rows_.phases() * row(); }
  /// Where in a plane half of its channels begins as a tap reads it.
  int64_t start(const ConvolutionGrid::Tap& tap, int64_t half_of_channels) const {
    return tap.phase * row() + (tap.offset % 2 * 2 + half_of_channels) * half() + tap.offset / 2 * 32;
  }
  /// Positions [from, to) of a row of these images.
  void pack(int64_t row, Range images, Range positions) const {
    Bfloat16* even = memory_.data<Bfloat16>() + row * this->row() + positions.begin * 16;
    Bfloat16* const starts[] = {even, even + 2 * half()};
    weight_gradient_tile_kernels()->pack_pairs(rows_.row(row, images.begin, images.end), positions.begin, positions.end,
                                               starts, half());
  }

 private:
  int64_t half() const { return length_ * 16; }
  int64_t row() const { return 4 * half(); }

  int64_t length_;
  TileRows rows_;
  Tensor memory_;
};

/// The output's gradient as rows of positions.
class GradientRows {
 public:
  GradientRows(const ConvolutionGrid& grid, const Tensor& gradient, int64_t length)
      : length_(length),
        rows_(grid, gradient),
        memory_(packed_memory(gradient.device(), rows_.count() * length * 32)) {}

  int64_t planes() const { return rows_.planes(); }
  const Bfloat16* plane(int64_t plane) const { return memory_.data<Bfloat16>() + plane * length_ * 32; }
  void pack(int64_t plane, Range images, Range positions) const {
    weight_gradient_tile_kernels()->pack_rows(rows_.row(plane, images.begin, images.end), positions.begin,
                                              positions.end,
                                              memory_.data<Bfloat16>() + (plane * length_ + positions.begin) * 32);
  }
  void add_to(double* bias_sums, Range images) const {
    parallel_for(memory_.device(), planes(), [&](int64_t plane) {
      weight_gradient_tile_kernels()->add_positions(rows_.row(plane, images.begin, images.end), 0, length_,
                                                    bias_sums + plane * 32);
    });
  }

 private:
  int64_t length_;
  TileRows rows_;
  Tensor memory_;
};

/// Both of the same images, in one go of all threads.
void pack(Device& device, const PairedInput& input, const GradientRows& gradient, int64_t length, Range images) {
  const int64_t parts = (length + kPackedPositions - 1) / kPackedPositions;
  parallel_units(device, (input.rows() + gradient.planes()) * parts, [&](int64_t unit) {
    const int64_t row = unit / parts, first = unit % parts * kPackedPositions;
    const Range positions{first, std::min(length, first + kPackedPositions)};
    row < input.rows() ? input.pack(row, images, positions) : gradient.pack(row - input.rows(), images, positions);
  });
}

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
  const PairedInput input(grid, x, length);
  const GradientRows gradient(of_y, output_gradient, length);
  const int64_t window = weight[2] * weight[3] * 256, inputs = (weight[1] + 15) / 16, outputs = (weight[0] + 15) / 16;
  const auto whole = passes_of(grid, input, 2, window), half = passes_of(grid, input, 1, window);
  // Passes are shared out where channels are too few for all threads.
  const int64_t products = input.planes() * gradient.planes();
  const int64_t shares = std::clamp(kProducts / products, int64_t{1}, static_cast<int64_t>(half.size()));
  for (int64_t begin = 0; begin < images; begin += chunk) {
    const int64_t end = std::min(images, begin + chunk);
    pack(x.device(), input, gradient, length, {begin, end});
    parallel_units(x.device(), products * shares, [&](int64_t unit) {
      const int64_t product = unit / shares, share = unit % shares;
      const int64_t in = product / gradient.planes(), out = product % gradient.planes();
      const auto& passes = 2 * in + 1 < inputs ? whole : half;
      const auto count = static_cast<int64_t>(passes.size()), first = share * count / shares;
      weight_gradient_tile_kernels()->multiply({.steps = (grid.span(grid.outputs[0], end - begin) + 31) / 32,
                                                .left = gradient.plane(out),
                                                .right = input.plane(in),
                                                .passes = passes.data() + first,
                                                .pass_count = (share + 1) * count / shares - first,
                                                .sums = sums.data<float>() + 2 * (out * inputs + in) * window,
                                                .output_blocks = std::min(int64_t{2}, outputs - 2 * out),
                                                .output_stride = inputs * window,
                                                .accumulate = accumulate || begin > 0});
    });
    if (bias_sums != nullptr) gradient.add_to(bias_sums, {begin, end});
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
