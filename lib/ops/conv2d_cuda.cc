#include "ops/conv2d_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/cuda_device.h"
#include "ops/activation.h"
#include "ops/add.h"
#include "ops/bias_cuda.h"
#include "ops/convolution_choice_cuda.h"
#include "ops/cudnn_convolution_cuda.h"
#include "ops/dispatch.h"
#include "ops/nhwc_cuda.h"
#include "ops/reorder.h"
#include "ops/winograd_convolution_cuda.h"

namespace dptrain::ops::cuda {
namespace {

/// Passes with fewer operations end before the parts of Winograd's algorithm could be launched.
constexpr double kFewestWinogradFlops = 1e9;

double flops_of(const ConvolutionProblem& p) {
  return 2.0 * static_cast<double>(p.y.elements()) * static_cast<double>(p.weight.elements() / p.weight[0]);
}

/// Returns Winograd's plans alone if they are asked for, and with cuDNN's if they may be faster. Else returns cuDNN's
/// plans alone.
ConvolutionChoice choice_of(Device& device, const ConvolutionProblem& problem, ConvolutionAlgorithm algorithm) {
  const CudaDevice& gpu = CudaDevice::of(device);
  const auto by = gpu.deterministic() ? ConvolutionChoice::By::order : ConvolutionChoice::By::time;
  std::vector<std::unique_ptr<ConvolutionPlan>> plans;
  // Winograd's transforms need all of f32's digits.
  if (algorithm != ConvolutionAlgorithm::direct && !gpu.tf32() && can_be_winograd(problem)) {
    const bool is_asked_for = algorithm == ConvolutionAlgorithm::winograd;
    if (is_asked_for || (!gpu.deterministic() && flops_of(problem) >= kFewestWinogradFlops))
      plans = winograd_convolutions(problem);
    if (is_asked_for) return {by, std::move(plans), ""};
  }
  ConvolutionOffer offer = cudnn_convolutions(device, problem);
  std::ranges::move(offer.plans, std::back_inserter(plans));
  return {by, std::move(plans), offer.refusal, std::move(offer.others)};
}

/// The choices of one device, each made when its problem first occurs.
class Convolutions {
 public:
  explicit Convolutions(Device& device) : device_(device) {}

  /// Enqueues a convolution. Returns false if no plan works; it doesn't look for one again.
  bool run(const ConvolutionProblem& problem, ConvolutionAlgorithm algorithm, const ConvolutionOperands& operands) {
    const Key key{problem.key(), algorithm};
    auto found = choices_.find(key);
    if (found == choices_.end()) found = choices_.emplace(key, choice_of(device_, problem, algorithm)).first;
    ConvolutionChoice& choice = found->second;
    const bool taken = choice.run(operands);
    refusal_ = choice.refusal();
    if (taken) log_way(device_, choice.name());
    return taken;
  }

  /// The reason why the latest convolution was refused; may be empty.
  const std::string& refusal() const { return refusal_; }

 private:
  using Key = std::pair<decltype(std::declval<ConvolutionProblem>().key()), ConvolutionAlgorithm>;

  Device& device_;
  std::map<Key, ConvolutionChoice> choices_;
  std::string refusal_;
};

/// Describes the forward pass over x, without bias and ReLU. The other passes have the same sizes.
ConvolutionProblem problem_of(const Tensor& x, const Shape& weight, const Shape& y, const Conv2dOptions& options) {
  return {.pass = ConvolutionPass::forward,
          .dtype = x.dtype(),
          .x = x.shape(),
          .weight = weight,
          .y = y,
          .stride = options.stride,
          .padding = options.padding};
}

bool try_run(const ConvolutionProblem& problem, ConvolutionAlgorithm algorithm, const ConvolutionOperands& operands) {
  return operands.out.device().attached<Convolutions>().run(problem, algorithm, operands);
}

void run(const ConvolutionProblem& problem, ConvolutionAlgorithm algorithm, const ConvolutionOperands& operands) {
  if (try_run(problem, algorithm, operands)) return;
  Device& device = operands.out.device();
  const std::string& refusal = device.attached<Convolutions>().refusal();
  const std::string what =
      fmt::format("{} convolution of {} with {}", dtype_name(problem.dtype), problem.x.text(), problem.weight.text());
  throw Error(ExitCode::device,
              fmt::format("{}: no algorithm computes a {} with these settings{}{}; try another precision, "
                          "convolution: auto, or deterministic: false",
                          device.name(), what, refusal.empty() ? "" : ": ", refusal));
}

}  // namespace

Tensor conv2d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                      const Conv2dOptions& options) {
  Tensor y = empty_nhwc(x, output);
  if (y.elements() == 0) return y;
  ConvolutionProblem problem = problem_of(x, weight.shape(), output, options);
  problem.bias = bias.defined();
  problem.relu = options.relu;
  ConvolutionOperands operands{.first = in_nhwc(x), .second = in_nhwc(weight), .bias = bias, .out = y};
  const bool fused = problem.bias || problem.relu;
  if (fused && try_run(problem, options.algorithm, operands)) return y;
  problem.bias = problem.relu = false;
  operands.bias = Tensor();
  run(problem, options.algorithm, operands);
  if (bias.defined()) add_bias(y, bias, options.relu);
  return options.relu && !bias.defined() ? activation_forward(kRelu, y) : y;
}

Tensor conv2d_backward_data(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                            const Conv2dOptions& options) {
  const Tensor gradient = empty_nhwc(output_gradient, x.shape);
  if (gradient.elements() == 0) return reorder(gradient, x.layout);
  ConvolutionProblem problem = problem_of(gradient, weight.shape(), output_gradient.shape(), options);
  problem.pass = ConvolutionPass::data_gradient;
  run(problem, options.algorithm, {.first = in_nhwc(output_gradient), .second = in_nhwc(weight), .out = gradient});
  return reorder(gradient, x.layout);
}

void conv2d_backward_weights(const Tensor& x, const Tensor& output_gradient, const Conv2dWeightGradients& gradients,
                             const Conv2dOptions& options) {
  const Tensor& weight = gradients.weight;
  if (x.elements() == 0) {
    if (!gradients.accumulate_weight) weight.fill_zero();
    if (gradients.bias.defined() && !gradients.accumulate_bias) gradients.bias.fill_zero();
    return;
  }
  const Tensor incoming = in_nhwc(output_gradient);
  const bool in_place = weight.layout() == Layout::nhwc && weight.dtype() == x.dtype() && !gradients.accumulate_weight;
  const TensorOptions as_computed{.dtype = x.dtype(), .layout = Layout::nhwc, .purpose = MemoryPurpose::workspace};
  const Tensor target = in_place ? weight : Tensor::empty(x.device(), weight.shape(), as_computed);
  ConvolutionProblem problem = problem_of(x, weight.shape(), output_gradient.shape(), options);
  problem.pass = ConvolutionPass::weight_gradient;
  run(problem, options.algorithm, {.first = in_nhwc(x), .second = incoming, .out = target});
  if (gradients.accumulate_weight) {
    const TensorOptions as_kept{
        .dtype = weight.dtype(), .layout = weight.layout(), .purpose = MemoryPurpose::workspace};
    add_into(weight, converted(target, as_kept));
  } else if (!in_place) {
    reorder_into(target, weight);
  }
  if (gradients.bias.defined()) bias_gradient(incoming, gradients.bias, gradients.accumulate_bias);
}

}  // namespace dptrain::ops::cuda
