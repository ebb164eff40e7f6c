#include <algorithm>

#include "device/parallel_for.h"
#include "ops/add.h"
#include "ops/conv2d_cpu.h"
#include "ops/conv2d_tiles_cpu.h"
#include "ops/image_columns_cpu.h"
#include "ops/reorder.h"
#include "ops/weight_gradient_rows_cpu.h"

namespace dptrain::ops::cpu {
namespace {

// The first three of these numbers determine the order of sums, so they mustn't depend on the number of threads. The
// others only determine which thread computes what.

/// Positions that are packed and added up at once. Those of 32 channels stay in the second-level cache, and adding up
/// several sums loses less than one long sum.
constexpr int64_t kChunkPositions = 2048;
/// Most groups of chunks with sums of their own, and most numbers in all of these sums.
constexpr int64_t kMostGroups = 4, kMostSums = 2 * 1024 * 1024;

/// Units of work that all threads should share at least: products of 32 by 32 channels, or parts of them if there are
/// fewer products.
constexpr int64_t kProducts = 8;
/// Positions that a thread packs at once: few enough that even a few planes give every thread some.
constexpr int64_t kPackedPositions = 256;

/// Two ways to run units of work: on all of a device's threads, or on the calling thread.
struct AllThreads {
  const Device& device;
  template <class Body>
  void operator()(int64_t units, const Body& body) const {
    parallel_units(device, units, body);
  }
};
struct ThisThread {
  template <class Body>
  void operator()(int64_t units, const Body& body) const {
    for (int64_t unit = 0; unit < units; ++unit) body(unit);
  }
};

/// The grid of the output's gradient: the same positions, without a stride or zeros before them.
ConvolutionGrid gradient_grid(const ConvolutionGrid& grid) {
  return {.phases = {{0, 0}}, .outputs = {}, .rows = grid.rows, .columns = grid.columns};
}

/// Returns the passes that compute all of a window's weights, for one or both halves of 32 input channels. `window` is
/// the number of elements in a block of 16 by 16 channels. Two taps that read the same pairs share the loads of their
/// lines. A tap without such a partner is paired with its other half or with another single tap.
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

/// A convolution whose weights' gradient is computed.
struct Problem {
  Problem(const Tensor& x_, const Tensor& output_gradient_, const Shape& weight_, const Conv2dOptions& options)
      : x(x_),
        output_gradient(output_gradient_),
        weight(weight_),
        grid(forward_grid(x.shape(), weight, output_gradient.shape(), options)),
        of_y(gradient_grid(grid)),
        chunk(std::clamp(kChunkPositions / grid.image(), int64_t{1}, x.shape()[0])) {}

  int64_t chunks() const { return (x.shape()[0] + chunk - 1) / chunk; }
  Range images(int64_t i) const { return {i * chunk, std::min(x.shape()[0], (i + 1) * chunk)}; }
  /// Positions of a chunk's long row.
  int64_t length() const { return (grid.length(chunk) + 31) / 32 * 32; }

  const Tensor &x, &output_gradient;
  const Shape& weight;
  ConvolutionGrid grid, of_y;
  int64_t chunk;  ///< images of a chunk
};

/// Computes the gradients of chunks, one after the other, in the same memory.
class ChunkGradient {
 public:
  explicit ChunkGradient(const Problem& of)
      : of_(of), length_(of.length()), input_(of.grid, of.x, length_), gradient_(of.of_y, of.output_gradient, length_) {
    const int64_t window = window_elements();
    whole_ = passes_of(of.grid, input_, 2, window), half_ = passes_of(of.grid, input_, 1, window);
  }

  /// sums = the weights' gradient in oihw16i16o, or sums += it. bias_sums += the bias's gradient, unless it is null.
  template <class Run>
  void add(Range images, float* sums, bool accumulate, double* bias_sums, const Run& run) const {
    pack(images, run);
    multiply(images.end - images.begin, sums, accumulate, run);
    if (bias_sums == nullptr) return;
    run(gradient_.planes(), [&](int64_t plane) { gradient_.add_to(bias_sums + plane * 32, plane, images); });
  }

 private:
  /// Elements of the window in a block of 16 by 16 channels.
  int64_t window_elements() const { return of_.weight[2] * of_.weight[3] * 256; }

  template <class Run>
  void pack(Range images, const Run& run) const {
    const int64_t parts = (length_ + kPackedPositions - 1) / kPackedPositions;
    run((input_.rows() + gradient_.planes()) * parts, [&](int64_t unit) {
      const int64_t row = unit / parts, first = unit % parts * kPackedPositions;
      const Range positions{first, std::min(length_, first + kPackedPositions)};
      row < input_.rows() ? input_.pack(row, images, positions)
                          : gradient_.pack(row - input_.rows(), images, positions);
    });
  }

  template <class Run>
  void multiply(int64_t images, float* sums, bool accumulate, const Run& run) const {
    const int64_t inputs = (of_.weight[1] + 15) / 16, outputs = (of_.weight[0] + 15) / 16, window = window_elements();
    // If there are too few channels for all threads, the passes of a product are divided among them.
    const int64_t products = input_.planes() * gradient_.planes();
    const int64_t shares = std::clamp(kProducts / products, int64_t{1}, static_cast<int64_t>(half_.size()));
    run(products * shares, [&](int64_t unit) {
      const int64_t product = unit / shares, share = unit % shares;
      const int64_t in = product / gradient_.planes(), out = product % gradient_.planes();
      const auto& passes = 2 * in + 1 < inputs ? whole_ : half_;
      const auto count = static_cast<int64_t>(passes.size()), first = share * count / shares;
      weight_gradient_tile_kernels()->multiply({.steps = (of_.grid.span(of_.grid.outputs[0], images) + 31) / 32,
                                                .left = gradient_.plane(out),
                                                .right = input_.plane(in),
                                                .passes = passes.data() + first,
                                                .pass_count = (share + 1) * count / shares - first,
                                                .sums = sums + 2 * (out * inputs + in) * window,
                                                .output_blocks = std::min(int64_t{2}, outputs - 2 * out),
                                                .output_stride = inputs * window,
                                                .accumulate = accumulate});
    });
  }

  const Problem& of_;
  int64_t length_;
  PairedInput input_;
  GradientRows gradient_;
  std::vector<WeightGradientPass> whole_, half_;
};

/// Returns into how many groups the chunks are divided: a power of two, as most numbers of threads are.
int64_t groups_of(int64_t chunks, int64_t sums) {
  int64_t groups = 1;
  while (2 * groups <= std::min(kMostGroups, chunks) && 2 * groups * sums <= kMostSums) groups *= 2;
  return groups;
}

/// sums = the weights' gradient in oihw16i16o, f32, or sums += it. bias_sums += the bias's gradient, unless it is null.
void add_gradient(const Tensor& x, const Tensor& output_gradient, const Conv2dOptions& options, bool accumulate,
                  const Tensor& sums, double* bias_sums) {
  Device& device = x.device();
  const Problem problem(x, output_gradient, sums.shape(), options);
  const int64_t chunks = problem.chunks(), groups = groups_of(chunks, sums.storage_elements());
  // The first group's sums are `sums` itself.
  std::vector<Tensor> sums_of = {sums};
  for (int64_t group = 1; group < groups; ++group)
    sums_of.push_back(
        Tensor::empty(device, sums.shape(), {.layout = Layout::oihw16i16o, .purpose = MemoryPurpose::workspace}));
  const int64_t biases = (sums.shape()[0] + 31) / 32 * 32;
  std::vector<double> biases_of(bias_sums == nullptr ? 0 : static_cast<size_t>(groups * biases));
  const auto add_group = [&](const ChunkGradient& chunk, int64_t group, const auto& run) {
    const int64_t begin = group * chunks / groups, end = (group + 1) * chunks / groups;
    for (int64_t i = begin; i < end; ++i)
      chunk.add(problem.images(i), sums_of[static_cast<size_t>(group)].data<float>(),
                i > begin || (group == 0 && accumulate),
                bias_sums == nullptr ? nullptr : biases_of.data() + group * biases, run);
  };
  // A thread that packs what it multiplies finds it in its own caches. If the threads don't divide the groups evenly,
  // all threads share each group instead.
  const int64_t parts = groups % device.threads() == 0 ? device.threads() : 1;
  std::vector<ChunkGradient> gradients;
  for (int64_t part = 0; part < parts; ++part) gradients.emplace_back(problem);
  if (parts > 1)
    parallel_parts(device, groups, 1, [&](int64_t part, int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group)
        add_group(gradients[static_cast<size_t>(part)], group, ThisThread());
    });
  else
    for (int64_t group = 0; group < groups; ++group) add_group(gradients[0], group, AllThreads{device});
  for (int64_t group = 1; group < groups; ++group) add_into(sums, sums_of[static_cast<size_t>(group)]);
  for (size_t i = 0; i < biases_of.size(); ++i) bias_sums[i % static_cast<size_t>(biases)] += biases_of[i];
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
  const Layout layout = conv2d_output_layout(gradients.weight.shape());
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
