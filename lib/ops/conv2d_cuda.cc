#include "ops/conv2d_cuda.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "ops/add.h"
#include "ops/bias_cuda.h"
#include "ops/convolution_plan_cuda.h"
#include "ops/nhwc_cuda.h"
#include "ops/relu.h"
#include "ops/reorder.h"

namespace dptrain::ops::cuda {
namespace {

/// The plans of one device, made as their shapes come.
class Convolutions {
 public:
  explicit Convolutions(Device& device) : device_(device) {}

  /// Whether the library had the problem and took it; where not, it isn't asked again.
  bool run(const ConvolutionProblem& problem, const ConvolutionOperands& operands) {
    const auto [found, added] = plans_.try_emplace(problem.key());
    ConvolutionOffer& offer = found->second;
    if (added) offer = make_convolution_plan(device_, problem);
    refusal_ = offer.refusal;
    if (offer.plan == nullptr) return false;
    if (offer.plan->run(operands)) return true;
    refusal_ = offer.refusal = offer.plan->refusal();
    offer.plan.reset();
    return false;
  }

  /// What it has said of the latest one, if anything.
  const std::string& refusal() const { return refusal_; }

 private:
  Device& device_;
  std::map<decltype(std::declval<ConvolutionProblem>().key()), ConvolutionOffer> plans_;
  std::string refusal_;
};

/// The forward pass over x, with neither bias nor ReLU; the other passes are of the same sizes.
ConvolutionProblem problem_of(const Tensor& x, const Shape& weight, const Shape& y, const Conv2dOptions& options) {
  return {.pass = ConvolutionPass::forward,
          .dtype = x.dtype(),
          .x = x.shape(),
          .weight = weight,
          .y = y,
          .stride = options.stride,
          .padding = options.padding};
}

bool try_run(const ConvolutionProblem& problem, const ConvolutionOperands& operands) {
  return operands.out.device().attached<Convolutions>().run(problem, operands);
}

void run(const ConvolutionProblem& problem, const ConvolutionOperands& operands) {
  if (try_run(problem, operands)) return;
  Device& device = operands.out.device();
  const std::string& refusal = device.attached<Convolutions>().refusal();
  const std::string what =
      fmt::format("{} convolution of {} with {}", dtype_name(problem.dtype), problem.x.text(), problem.weight.text());
  throw Error(
      ExitCode::device,
      fmt::format("{}: cuDNN computes no {} by the settings{}{}; try another precision, or deterministic: false",
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
  if (fused && try_run(problem, operands)) return y;
  problem.bias = problem.relu = false;
  operands.bias = Tensor();
  run(problem, operands);
  if (bias.defined()) add_bias(y, bias, options.relu);
  return options.relu && !bias.defined() ? relu_forward(y) : y;
}

Tensor conv2d_backward_data(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                            const Conv2dOptions& options) {
  const Tensor gradient = empty_nhwc(output_gradient, x.shape);
  if (gradient.elements() == 0) return reorder(gradient, x.layout);
  ConvolutionProblem problem = problem_of(gradient, weight.shape(), output_gradient.shape(), options);
  problem.pass = ConvolutionPass::data_gradient;
  run(problem, {.first = in_nhwc(output_gradient), .second = in_nhwc(weight), .out = gradient});
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
  run(problem, {.first = in_nhwc(x), .second = incoming, .out = target});
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
