#include "ops/linear_cpu.h"

#include <algorithm>
#include <vector>

#include "device/one_thread.h"
#include "device/parallel_for.h"
#include "ops/add.h"
#include "ops/onednn_primitives.h"

namespace dptrain::ops::cpu {
namespace {

/// Samples of a forward product that one thread computes.
constexpr int64_t kBlockSamples = 32;

struct Forward {
  dnnl::inner_product_forward::primitive_desc desc;
  dnnl::inner_product_forward primitive;
};
struct BackwardData {
  dnnl::inner_product_backward_data::primitive_desc desc;
  dnnl::inner_product_backward_data primitive;
};
struct BackwardWeights {
  dnnl::inner_product_backward_weights::primitive_desc desc;
  dnnl::inner_product_backward_weights primitive;
};

/// A linear layer's sizes: all its matrices are plain, as parameters and activations of two dimensions are.
struct Problem {
  int64_t samples, in, out;
  bool bias, relu;

  PrimitiveKey key(int64_t primitive) const { return {primitive, samples, in, out, bias + 2 * relu}; }

  InnerProductDescs descs() const {
    return {.source = onednn_desc({samples, in}, Layout::plain),
            .weights = onednn_desc({out, in}, Layout::plain),
            .bias = bias ? onednn_desc({out}, Layout::plain) : dnnl::memory::desc(),
            .destination = onednn_desc({samples, out}, Layout::plain),
            .relu = relu};
  }
};

Forward make_forward(OneDnn& onednn, const Problem& problem) {
  auto desc = inner_product_forward(onednn.engine(), problem.descs());
  return {desc, dnnl::inner_product_forward(desc)};
}

/// What backward primitives want as a hint.
Forward& forward_of(OneDnn& onednn, const Problem& problem) {
  return onednn.cached<Forward>(problem.key(11), [&] { return make_forward(onednn, problem); });
}

/// Made for one thread.
Forward& forward_block_of(OneDnn& onednn, const Problem& problem) {
  return onednn.cached<Forward>(problem.key(14), [&] { return make_forward(onednn, problem); });
}

}  // namespace

Tensor linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
  const int64_t samples = x.shape()[0];
  Tensor y = Tensor::empty(x.device(), {samples, weight.shape()[0]});
  if (y.elements() == 0) return y;
  OneDnn& onednn = OneDnn::of(x.device());
  // oneDNN's product adds in an order that depends on its threads. In blocks of a fixed number of samples, each
  // computed by one thread, a sample's bits depend on its place in the batch alone: evaluation shows the same figures
  // on any devices.
  const auto forward_of_block = [&](int64_t block_samples) -> Forward& {
    const OneThread alone;
    return forward_block_of(onednn, {block_samples, x.shape()[1], weight.shape()[0], bias.defined(), relu});
  };
  const int64_t blocks = (samples + kBlockSamples - 1) / kBlockSamples;
  Forward& last = forward_of_block(samples - (blocks - 1) * kBlockSamples);
  Forward& whole = blocks > 1 ? forward_of_block(kBlockSamples) : last;
  const auto of_block = [&](int64_t block) -> Forward& { return block + 1 < blocks ? whole : last; };
  // Memory is taken here: where there is none left, the exception couldn't leave the threads below.
  std::vector<Tensor> scratch;
  for (int64_t block = 0; block < blocks; ++block)
    scratch.push_back(onednn.opaque(of_block(block).desc.scratchpad_desc()));
  parallel_for(x.device(), blocks, [&](int64_t block) {
    const OneThread alone;
    const int64_t begin = block * kBlockSamples, end = std::min(begin + kBlockSamples, samples);
    const Forward& forward = of_block(block);
    std::unordered_map<int, dnnl::memory> arguments = {
        {DNNL_ARG_SRC, onednn.memory(forward.desc.src_desc(), x.samples(begin, end))},
        {DNNL_ARG_WEIGHTS, onednn.memory(forward.desc.weights_desc(), weight)},
        {DNNL_ARG_DST, onednn.memory(forward.desc.dst_desc(), y.samples(begin, end))},
        {DNNL_ARG_SCRATCHPAD, onednn.memory(forward.desc.scratchpad_desc(), scratch[static_cast<size_t>(block)])}};
    if (bias.defined()) arguments.emplace(DNNL_ARG_BIAS, onednn.memory(forward.desc.bias_desc(), bias));
    onednn.execute(forward.primitive, dnnl::memory::desc(), arguments);
  });
  return y;
}

Tensor linear_backward_data(const Tensor& weight, const Tensor& output_gradient) {
  const Problem problem{output_gradient.shape()[0], weight.shape()[1], weight.shape()[0], false, false};
  Tensor gradient = Tensor::empty(weight.device(), {problem.samples, problem.in});
  if (gradient.elements() == 0) return gradient;
  OneDnn& onednn = OneDnn::of(weight.device());
  BackwardData& backward = onednn.cached<BackwardData>(problem.key(12), [&] {
    auto desc = inner_product_backward_data(onednn.engine(), problem.descs(), forward_of(onednn, problem).desc);
    return BackwardData{desc, dnnl::inner_product_backward_data(desc)};
  });
  onednn.execute(backward.primitive, backward.desc.scratchpad_desc(),
                 {{DNNL_ARG_DIFF_SRC, onednn.memory(backward.desc.diff_src_desc(), gradient)},
                  {DNNL_ARG_WEIGHTS, onednn.memory(backward.desc.weights_desc(), weight)},
                  {DNNL_ARG_DIFF_DST, onednn.memory(backward.desc.diff_dst_desc(), output_gradient)}});
  return gradient;
}

void linear_backward_weights(const Tensor& x, const Tensor& output_gradient, const LinearWeightGradients& gradients) {
  const bool with_bias = gradients.bias.defined();
  if (x.elements() == 0) {
    if (!gradients.accumulate_weight) gradients.weight.fill_zero();
    if (with_bias && !gradients.accumulate_bias) gradients.bias.fill_zero();
    return;
  }
  const Problem problem{x.shape()[0], x.shape()[1], output_gradient.shape()[1], with_bias, false};
  OneDnn& onednn = OneDnn::of(x.device());
  BackwardWeights& backward = onednn.cached<BackwardWeights>(problem.key(13), [&] {
    auto desc = inner_product_backward_weights(onednn.engine(), problem.descs(), forward_of(onednn, problem).desc);
    return BackwardWeights{desc, dnnl::inner_product_backward_weights(desc)};
  });
  const auto target = [&](const Tensor& gradient, bool accumulate) {
    return accumulate ? Tensor::empty(x.device(), gradient.shape(), {.purpose = MemoryPurpose::workspace}) : gradient;
  };
  const Tensor weight = target(gradients.weight, gradients.accumulate_weight);
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, onednn.memory(backward.desc.src_desc(), x)},
      {DNNL_ARG_DIFF_DST, onednn.memory(backward.desc.diff_dst_desc(), output_gradient)},
      {DNNL_ARG_DIFF_WEIGHTS, onednn.memory(backward.desc.diff_weights_desc(), weight)}};
  Tensor bias;
  if (with_bias) {
    bias = target(gradients.bias, gradients.accumulate_bias);
    arguments.emplace(DNNL_ARG_DIFF_BIAS, onednn.memory(backward.desc.diff_bias_desc(), bias));
  }
  onednn.execute(backward.primitive, backward.desc.scratchpad_desc(), arguments);
  if (gradients.accumulate_weight) add_into(gradients.weight, weight);
  if (with_bias && gradients.accumulate_bias) add_into(gradients.bias, bias);
}

}  // namespace dptrain::ops::cpu
