#include "ops/conv2d_direct_cpu.h"

#include <unordered_map>
#include <utility>

#include "ops/add.h"
#include "ops/conv2d_cpu.h"
#include "ops/f32_operands.h"
#include "ops/onednn_primitives.h"
#include "ops/reorder.h"

namespace dptrain::ops::cpu {
namespace {

/// A convolution's shapes and layouts, from which its primitives are made and by which they are cached.
struct Problem {
  Shape x, weight, y;
  Layout x_layout, y_layout;
  bool bias;
  Conv2dOptions options;

  PrimitiveKey key(int64_t primitive) const {
    PrimitiveKey key = {primitive, x[0],      x[1],      x[2],           x[3],
                        weight[0], weight[2], weight[3], options.stride, options.padding};
    key.push_back(bias + 2 * options.relu + 4 * static_cast<int64_t>(y_layout));
    key.push_back(static_cast<int64_t>(x_layout));
    return key;
  }

  ConvolutionDescs descs() const {
    return {.source = onednn_desc(x, x_layout),
            .weights = onednn_any(weight),
            .bias = bias ? onednn_any({weight[0]}) : dnnl::memory::desc(),
            .destination = onednn_desc(y, y_layout),
            .stride = options.stride,
            .padding = options.padding,
            .relu = options.relu};
  }
};

Problem problem_of(const Shape& x, const Shape& weight, const Shape& y, bool bias, const Conv2dOptions& options) {
  const Layout y_layout = conv2d_output_layout(weight);
  const bool blocked = y_layout != Layout::nhwc;
  return {.x = x,
          .weight = weight,
          .y = y,
          .x_layout = blocked && x[1] <= kFewChannels ? Layout::plain : y_layout,
          .y_layout = y_layout,
          .bias = bias,
          .options = options};
}

struct Forward {
  dnnl::convolution_forward::primitive_desc desc;
  dnnl::convolution_forward primitive;
};
struct BackwardData {
  dnnl::convolution_backward_data::primitive_desc desc;
  dnnl::convolution_backward_data primitive;
};
struct BackwardWeights {
  dnnl::convolution_backward_weights::primitive_desc desc;
  dnnl::convolution_backward_weights primitive;
};

Forward& forward_of(OneDnn& onednn, const Problem& problem) {
  return onednn.cached<Forward>(problem.key(1), [&] {
    auto desc = convolution_forward(onednn.engine(), problem.descs());
    return Forward{desc, dnnl::convolution_forward(desc)};
  });
}

/// Returns the description of a backward primitive, and the forward descriptor that oneDNN needs as a hint.
std::pair<ConvolutionDescs, dnnl::convolution_forward::primitive_desc> backward_of(OneDnn& onednn, Problem problem) {
  problem.options.relu = false;
  return {problem.descs(), forward_of(onednn, problem).desc};
}

BackwardData& backward_data_of(OneDnn& onednn, const Problem& problem) {
  return onednn.cached<BackwardData>(problem.key(2), [&] {
    const auto [descs, hint] = backward_of(onednn, problem);
    auto desc = convolution_backward_data(onednn.engine(), descs, hint);
    return BackwardData{desc, dnnl::convolution_backward_data(desc)};
  });
}

BackwardWeights& backward_weights_of(OneDnn& onednn, const Problem& problem) {
  return onednn.cached<BackwardWeights>(problem.key(3), [&] {
    const auto [descs, hint] = backward_of(onednn, problem);
    auto desc = convolution_backward_weights(onednn.engine(), descs, hint);
    return BackwardWeights{desc, dnnl::convolution_backward_weights(desc)};
  });
}

/// A tensor as f32 in the format that a primitive needs, converted if its own format differs. Owns the converted copy.
class AsWanted {
 public:
  AsWanted(OneDnn& onednn, const Tensor& tensor, const dnnl::memory::desc& wanted)
      : copy_(as_f32(tensor, tensor.layout())), memory_(onednn.memory(onednn_desc(tensor), copy_)) {
    if (onednn_desc(tensor) == wanted) return;
    const Tensor in_format = onednn.opaque(wanted);
    const dnnl::memory converted = onednn.memory(wanted, in_format);
    onednn.reorder(memory_, converted);
    memory_ = converted;
    copy_ = in_format;
  }
  const dnnl::memory& memory() const { return memory_; }

 private:
  Tensor copy_;
  dnnl::memory memory_;
};

}  // namespace

Tensor conv2d_forward_directly(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                               const Conv2dOptions& options) {
  const Problem problem = problem_of(x.shape(), weight.shape(), output, bias.defined(), options);
  Tensor y = Tensor::empty(x.device(), output, {.dtype = x.dtype(), .layout = problem.y_layout});
  if (y.elements() == 0) return y;
  OneDnn& onednn = OneDnn::of(x.device());
  Forward& forward = forward_of(onednn, problem);
  const Tensor source = as_f32(x, problem.x_layout), computed = f32_for(y);
  const AsWanted weights(onednn, weight, forward.desc.weights_desc());
  std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, onednn.memory(forward.desc.src_desc(), source)},
                                                     {DNNL_ARG_WEIGHTS, weights.memory()},
                                                     {DNNL_ARG_DST, onednn.memory(forward.desc.dst_desc(), computed)}};
  const Tensor added = bias.defined() ? as_f32(bias, bias.layout()) : bias;
  if (bias.defined()) arguments.emplace(DNNL_ARG_BIAS, onednn.memory(forward.desc.bias_desc(), added));
  onednn.execute(forward.primitive, forward.desc.scratchpad_desc(), arguments);
  round_into(computed, y);
  return y;
}

Tensor conv2d_backward_data_directly(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                                     const Conv2dOptions& options) {
  const Problem problem = problem_of(x.shape, weight.shape(), output_gradient.shape(), false, options);
  Tensor gradient = Tensor::empty(x.device, x.shape, {.dtype = x.dtype, .layout = problem.x_layout});
  if (gradient.elements() == 0) return reorder(gradient, x.layout);
  OneDnn& onednn = OneDnn::of(x.device);
  BackwardData& backward = backward_data_of(onednn, problem);
  const Tensor incoming = as_f32(output_gradient, problem.y_layout), computed = f32_for(gradient);
  const AsWanted weights(onednn, weight, backward.desc.weights_desc());
  onednn.execute(backward.primitive, backward.desc.scratchpad_desc(),
                 {{DNNL_ARG_DIFF_SRC, onednn.memory(backward.desc.diff_src_desc(), computed)},
                  {DNNL_ARG_WEIGHTS, weights.memory()},
                  {DNNL_ARG_DIFF_DST, onednn.memory(backward.desc.diff_dst_desc(), incoming)}});
  round_into(computed, gradient);
  return reorder(gradient, x.layout);
}

void conv2d_backward_weights_directly(const Tensor& x, const Tensor& output_gradient,
                                      const Conv2dWeightGradients& gradients, const Conv2dOptions& options) {
  const Tensor& weight = gradients.weight;
  const bool with_bias = gradients.bias.defined();
  if (x.elements() == 0) {
    if (!gradients.accumulate_weight) weight.fill_zero();
    if (with_bias && !gradients.accumulate_bias) gradients.bias.fill_zero();
    return;
  }
  Problem problem = problem_of(x.shape(), weight.shape(), output_gradient.shape(), with_bias, options);
  // For one or two channels, oneDNN's AVX2 kernels only take a block of 8. For the plain layout it only has loops
  // without vectors.
  if (problem.x_layout == Layout::plain && problem.y_layout == Layout::nchw8c && x.shape()[1] != 3)
    problem.x_layout = Layout::nchw8c;
  OneDnn& onednn = OneDnn::of(x.device());
  BackwardWeights& backward = backward_weights_of(onednn, problem);
  const Tensor source = as_f32(x, problem.x_layout), incoming = as_f32(output_gradient, problem.y_layout);

  const dnnl::memory::desc produced = backward.desc.diff_weights_desc();
  const bool direct = !gradients.accumulate_weight && onednn_desc(weight) == produced;
  const Tensor own = direct ? weight : onednn.opaque(produced);
  const Tensor own_bias = with_bias && gradients.accumulate_bias
                              ? Tensor::empty(x.device(), gradients.bias.shape(), {.purpose = MemoryPurpose::workspace})
                              : gradients.bias;
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, onednn.memory(backward.desc.src_desc(), source)},
      {DNNL_ARG_DIFF_DST, onednn.memory(backward.desc.diff_dst_desc(), incoming)},
      {DNNL_ARG_DIFF_WEIGHTS, onednn.memory(produced, own)}};
  if (with_bias) arguments.emplace(DNNL_ARG_DIFF_BIAS, onednn.memory(backward.desc.diff_bias_desc(), own_bias));
  onednn.execute(backward.primitive, backward.desc.scratchpad_desc(), arguments);

  if (!direct) {
    Tensor converted = gradients.accumulate_weight
                           ? Tensor::empty(x.device(), weight.shape(),
                                           {.layout = weight.layout(), .purpose = MemoryPurpose::workspace})
                           : weight;
    onednn.reorder(onednn.memory(produced, own), onednn.memory(onednn_desc(converted), converted));
    if (gradients.accumulate_weight) add_into(weight, converted);
  }
  if (with_bias && gradients.accumulate_bias) add_into(gradients.bias, own_bias);
}

}  // namespace dptrain::ops::cpu
