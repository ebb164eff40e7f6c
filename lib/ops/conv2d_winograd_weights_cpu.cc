#include <algorithm>
#include <vector>

#include "device/parallel_for.h"
#include "ops/conv2d_winograd_cpu.h"
#include "ops/reorder.h"
#include "ops/winograd_tiles.h"

namespace dptrain::ops::cpu {
namespace {

using namespace winograd;

/// Numbers of the weights' transformed gradient that are summed at once.
constexpr int64_t kGradientNumbers = 640 * 1024;

/// The gradient of the weights and, unless `bias` is null, of the bias.
class WeightGradient {
 public:
  WeightGradient(const Tensor& x, const Tensor& incoming, const Tensor& weight, int64_t padding, double* bias,
                 bool accumulate)
      : x_(x),
        incoming_(incoming),
        weight_(weight),
        padding_(padding),
        bias_(bias),
        accumulate_(accumulate),
        images_(images_of(x.shape())),
        gradients_(images_of(incoming.shape())),
        tiles_(tiles_of(incoming.shape())) {
    const int64_t threads = weight.device().threads();
    product_ = images_.blocks * kernels_.lanes * kernels_.lanes;
    parts_ = tiles_.count >= 2 * kFewestTiles * threads ? threads : 1;
    at_once_ =
        std::max(kernels_.panel, kGradientNumbers / (kWinogradProducts * product_) / kernels_.panel * kernels_.panel);
    if (parts_ == 1)
      at_once_ = std::min(at_once_, parts_of(parts_of(gradients_.blocks, threads), kernels_.panel) * kernels_.panel);
    at_once_ = std::min(at_once_, gradients_.blocks);
    const int64_t tiles = parts_of(tiles_.count, parts_);
    const int64_t most =
        std::max(kFewestTiles, 2 * kGroupNumbers / (kWinogradProducts * (images_.blocks + at_once_) * kernels_.lanes));
    groups_ = tiles <= std::min(2 * most, kMostWinogradTiles) ? 1 : parts_of(tiles, std::min(most, kMostWinogradTiles));
    const int64_t group = parts_of(tiles, groups_);
    v_numbers_ = tile_numbers(images_.blocks, winograd_row(group));
    z_numbers_ = tile_numbers(at_once_, winograd_row(group));
    du_numbers_ = weight_numbers(images_.blocks, at_once_);
    memory_ = scratch(weight.device(), parts_ > 1 ? parts_ : std::min(threads, ranges()),
                      v_numbers_ + z_numbers_ + du_numbers_);
    sums_.resize(static_cast<size_t>(parts_ * gradients_.blocks * kernels_.lanes));
  }

  void compute() {
    if (parts_ == 1)
      parallel_parts(weight_.device(), ranges(), 1, [&](int64_t part, int64_t begin, int64_t end) {
        for (int64_t range = begin; range < end; ++range) {
          sum(range, 0, memory_of(part), range == begin);
          for (int64_t output = range * at_once_; output < end_of(range); ++output)
            for (int64_t input = 0; input < images_.blocks; ++input) write(range, output, input, memory_of(part));
        }
      });
    else
      for (int64_t range = 0; range < ranges(); ++range) {
        parallel_for(weight_.device(), parts_, [&](int64_t part) { sum(range, part, memory_of(part), range == 0); });
        const int64_t blocks = (end_of(range) - range * at_once_) * images_.blocks;
        parallel_for(weight_.device(), blocks, [&](int64_t i) {
          write(range, range * at_once_ + i / images_.blocks, i % images_.blocks, memory_of(0));
        });
      }
    if (bias_ != nullptr)
      for (int64_t c = 0; c < weight_.shape()[0]; ++c)
        for (int64_t part = 0; part < parts_; ++part)
          bias_[c] += sums_[static_cast<size_t>(part * gradients_.blocks * kernels_.lanes + c)];
  }

 private:
  int64_t ranges() const { return parts_of(gradients_.blocks, at_once_); }
  int64_t end_of(int64_t range) const { return std::min(gradients_.blocks, (range + 1) * at_once_); }
  float* memory_of(int64_t part) const { return memory_.data<float>() + part * memory_.shape()[1]; }

  /// Sums the transformed gradient of a range of outputs over one part of the tiles. `first`: the memory doesn't hold
  /// transformed inputs yet.
  void sum(int64_t range, int64_t part, float* memory, bool first) {
    float *v = memory, *z = v + v_numbers_, *du = z + z_numbers_;
    const int64_t output = range * at_once_, outputs = end_of(range) - output;
    std::fill_n(du, weight_numbers(images_.blocks, outputs), 0.0F);
    if (tiles_.count == 0) return;
    for (int64_t group = 0; group < groups_; ++group) {
      const WinogradTiles some = group_of(tiles_, part * groups_ + group, parts_ * groups_);
      if (first || groups_ > 1)
        kernels_.inputs(images_, some, {.x = numbers_of(x_), .padding = padding_, .in_runs = false, .v = v});
      double* sums = bias_ == nullptr ? nullptr : sums_.data() + (part * gradients_.blocks + output) * kernels_.lanes;
      kernels_.output_gradients(
          gradients_, some,
          {.dy = numbers_of(incoming_), .first_output = output, .outputs = outputs, .z = z, .sums = sums});
      kernels_.multiply_by_tiles(
          {.tiles = some.count, .inputs = images_.blocks, .outputs = outputs, .v = v, .z = z, .du = du});
    }
  }

  /// Writes the gradient of a block of outputs by a block of inputs, over all parts.
  void write(int64_t range, int64_t output, int64_t input, const float* memory) {
    const int64_t first = range * at_once_, outputs = end_of(range) - first;
    const int64_t panel = (output - first) / kernels_.panel * kernels_.panel;
    const int64_t in_panel = std::min(kernels_.panel, outputs - panel);
    const float* du = memory + v_numbers_ + z_numbers_ + weight_numbers(images_.blocks, panel) +
                      input * kernels_.weight_numbers(in_panel);
    const int64_t block = kWinogradWeights * kWinogradWeights * kernels_.lanes * kernels_.lanes;
    kernels_.weight_gradient({.du = du,
                              .parts = parts_,
                              .part_stride = memory_.shape()[1],
                              .output = output - first - panel,
                              .outputs = in_panel,
                              .accumulate = accumulate_,
                              .gradient = weight_.data<float>() + (output * images_.blocks + input) * block});
  }

  const WinogradKernels& kernels_ = winograd_kernels();
  const Tensor &x_, &incoming_, &weight_;
  int64_t padding_;
  double* bias_;
  bool accumulate_;
  WinogradImages images_, gradients_;
  WinogradTiles tiles_;
  /// Parts of the tiles, which are summed separately and folded in order; blocks in a range of outputs, which are
  /// computed one range after the other; and groups of tiles in a part.
  int64_t parts_, at_once_, groups_;
  int64_t product_;  ///< numbers of one product of a block of outputs
  int64_t v_numbers_, z_numbers_, du_numbers_;
  Tensor memory_;
  std::vector<double> sums_;
};

}  // namespace

void conv2d_backward_weights_by_winograd(const Tensor& x, const Tensor& output_gradient,
                                         const Conv2dWeightGradients& gradients, const Conv2dOptions& options) {
  const Tensor& weight = gradients.weight;
  const bool direct = weight.layout() == weight_layout();
  const Tensor target = direct ? weight
                               : Tensor::empty(x.device(), weight.shape(),
                                               {.layout = weight_layout(), .purpose = MemoryPurpose::workspace});
  if (!direct && gradients.accumulate_weight) reorder_into(weight, target);
  std::vector<double> bias(static_cast<size_t>(weight.shape()[0]));
  WeightGradient(blocked(x), blocked(output_gradient), target, options.padding,
                 gradients.bias.defined() ? bias.data() : nullptr, gradients.accumulate_weight)
      .compute();
  if (!direct) reorder_into(target, weight);
  if (!gradients.bias.defined() || !x.device().computes()) return;
  float* to = gradients.bias.data<float>();
  for (size_t c = 0; c < bias.size(); ++c)
    to[c] = static_cast<float>(gradients.accumulate_bias ? to[c] + bias[c] : bias[c]);
}

}  // namespace dptrain::ops::cpu
