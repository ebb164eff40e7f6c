#include "ops/conv2d_winograd_cpu.h"

#include <algorithm>

#include "device/cpu_isa.h"
#include "device/parallel_for.h"
#include "ops/conv2d_cpu.h"
#include "ops/f32_operands.h"
#include "ops/reorder.h"
#include "ops/winograd_tiles.h"

namespace dptrain::ops::cpu {
namespace {

using namespace winograd;

/// Blocks of inputs that are summed at once. Their weights stay in the second-level cache. The sums of such blocks are
/// then added up, so rounding errors grow only with the number of blocks.
constexpr int64_t kInputsAtOnce = 8;
/// Most numbers of transformed weights that are kept as a whole, since each group then reads all of them.
constexpr int64_t kWeightNumbers = 1024 * 1024;

/// y = x convolved with the weights, in blocks; x and y are f32 or bf16, the weights f32. `turned`: input and output
/// channels are swapped and the window is turned by 180 degrees, for the gradient of the inputs.
struct Convolution {
  const Tensor &x, &weight, &y;
  bool turned;
  int64_t padding;
  const Tensor& bias;
  bool relu;
};

/// How a convolution is divided: into groups of tiles, and if these are fewer than threads, also into ranges of
/// outputs.
struct Shares {
  int64_t groups, tiles;  ///< most tiles of a group
  int64_t ranges;
};

Shares shares_of(const Device& device, int64_t tiles, int64_t inputs, int64_t panels) {
  const WinogradKernels& kernels = winograd_kernels();
  const int64_t threads = device.threads();
  const int64_t fitting = kGroupNumbers / (kWinogradProducts * inputs * kernels.lanes) / kernels.run * kernels.run;
  const int64_t most = std::clamp(fitting, kFewestTiles, kMostWinogradTiles);
  int64_t groups = parts_of(tiles, most), ranges = 1;
  if (tiles >= threads * kernels.run)
    groups = parts_of(groups, threads) * threads;
  else
    ranges = std::min(panels, parts_of(threads, groups));
  return {.groups = groups, .tiles = parts_of(tiles, groups), .ranges = ranges};
}

/// Returns the transformed weights of all panels of outputs.
Tensor transformed(const WinogradWeights& weights, Device& device, int64_t inputs, int64_t outputs) {
  const WinogradKernels& kernels = winograd_kernels();
  const int64_t panels = parts_of(outputs, kernels.panel), of_panel = weight_numbers(inputs, kernels.panel);
  const Tensor memory = scratch(device, panels, of_panel);
  parallel_for(device, panels, [&](int64_t panel) {
    WinogradWeights some = weights;
    some.first_output = panel * kernels.panel;
    some.outputs = std::min(kernels.panel, outputs - some.first_output);
    some.inputs = inputs;
    kernels.weights(some, memory.data<float>() + panel * of_panel);
  });
  return memory;
}

void convolve(const Convolution& c) {
  const WinogradKernels& kernels = winograd_kernels();
  Device& device = c.y.device();
  const WinogradImages x = images_of(c.x.shape()), y = images_of(c.y.shape());
  const WinogradTiles tiles = tiles_of(c.y.shape());
  const int64_t panels = parts_of(y.blocks, kernels.panel);
  const Shares shares = shares_of(device, tiles.count, x.blocks, panels);
  const WinogradWeights weights{.weights = c.weight.data<float>(),
                                .output_blocks = c.turned ? x.blocks : y.blocks,
                                .input_blocks = c.turned ? y.blocks : x.blocks,
                                .turned = c.turned};

  // Few weights are transformed once. Many weights are transformed for each group, as many at a time as the cache
  // holds, which costs less than reading them from further away.
  const bool once = shares.groups > device.threads() && weight_numbers(x.blocks, y.blocks) <= kWeightNumbers;
  const Tensor all = once ? transformed(weights, device, x.blocks, y.blocks) : Tensor();
  const int64_t at_once = std::min(kInputsAtOnce, x.blocks);
  const int64_t v_numbers = tile_numbers(x.blocks, shares.tiles);
  const int64_t u_numbers = once ? 0 : weight_numbers(at_once, kernels.panel);
  const int64_t m_numbers = tile_numbers(kernels.panel, shares.tiles);
  const int64_t items = shares.groups * shares.ranges;
  const Tensor memory = scratch(device, std::min<int64_t>(items, device.threads()), v_numbers + u_numbers + m_numbers);

  parallel_parts(device, items, 1, [&](int64_t part, int64_t begin, int64_t end) {
    float* v = memory.data<float>() + part * memory.shape()[1];
    float *u = v + v_numbers, *m = u + u_numbers;
    for (int64_t item = begin; item < end; ++item) {
      const WinogradTiles group = group_of(tiles, item / shares.ranges, shares.groups);
      const int64_t range = item % shares.ranges;
      kernels.inputs(x, group, {.x = numbers_of(c.x), .padding = c.padding, .in_runs = true, .v = v});
      for (int64_t panel = range * panels / shares.ranges; panel < (range + 1) * panels / shares.ranges; ++panel) {
        const int64_t first = panel * kernels.panel, outputs = std::min(kernels.panel, y.blocks - first);
        for (int64_t input = 0; input < x.blocks; input += at_once) {
          WinogradWeights some = weights;
          some.first_output = first;
          some.outputs = outputs;
          some.first_input = input;
          some.inputs = std::min(at_once, x.blocks - input);
          if (once)
            u = all.data<float>() + panel * all.shape()[1] + weight_numbers(input, outputs);
          else
            kernels.weights(some, u);
          kernels.multiply_by_weights({.tiles = group.count,
                                       .inputs = some.inputs,
                                       .outputs = outputs,
                                       .v = v + tile_numbers(input, group.count),
                                       .u = u,
                                       .m = m,
                                       .accumulate = input > 0});
        }
        kernels.outputs(y, group,
                        {.m = m,
                         .first_output = first,
                         .outputs = outputs,
                         .bias = c.bias.defined() ? c.bias.data<float>() : nullptr,
                         .channels = c.y.shape()[1],
                         .relu = c.relu,
                         .y = numbers_of(c.y)});
      }
    }
  });
}

}  // namespace

bool fills_winograd(const Shape& weight) {
  return weight[2] == kWinogradWeights && weight[3] == kWinogradWeights && std::min(weight[0], weight[1]) >= 16;
}

bool has_winograd() { return cpu_isa() != CpuIsa::baseline; }

/// The rule, from measurements (docs/results/convolution-speed.md and convolution-speed-avx2.md). For 3x3 windows and
/// stride 1 with at least 16 channels on both sides, f32 is faster than direct convolutions in all three passes, mostly
/// twice as fast.
bool computes_winograd(const Shape& weight, const Conv2dOptions& options) {
  return has_winograd() && options.algorithm != ConvolutionAlgorithm::direct && fills_winograd(weight) &&
         options.stride == 1 && options.padding <= 1 && conv2d_output_layout(weight) != Layout::nhwc;
}

Tensor conv2d_forward_by_winograd(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                                  const Conv2dOptions& options) {
  Tensor y = Tensor::empty(x.device(), output, {.dtype = x.dtype(), .layout = image_layout()});
  if (y.elements() == 0) return y;
  convolve({.x = blocked(x),
            .weight = as_f32(weight, weight_layout()),
            .y = y,
            .turned = false,
            .padding = options.padding,
            .bias = bias.defined() ? as_f32(bias, bias.layout()) : bias,
            .relu = options.relu});
  return y;
}

Tensor conv2d_backward_data_by_winograd(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                                        const Conv2dOptions& options) {
  Tensor gradient = Tensor::empty(x.device, x.shape, {.dtype = x.dtype, .layout = image_layout()});
  if (gradient.elements() == 0) return reorder(gradient, x.layout);
  convolve({.x = blocked(output_gradient),
            .weight = as_f32(weight, weight_layout()),
            .y = gradient,
            .turned = true,
            .padding = kWinogradWeights - 1 - options.padding,
            .bias = Tensor(),
            .relu = false});
  return reorder(gradient, x.layout);
}

}  // namespace dptrain::ops::cpu
