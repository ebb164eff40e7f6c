#include "ops/linear_cpu.h"

#include <algorithm>

#include "ops/add.h"
#include "ops/f32_operands.h"
#include "ops/f32_pieces.h"
#include "ops/linear_kernels.h"
#include "ops/onednn_primitives.h"

namespace dptrain::ops::cpu {
namespace {

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
  bool bias;

  PrimitiveKey key(int64_t primitive) const { return {primitive, samples, in, out, bias}; }

  InnerProductDescs descs() const {
    return {.source = onednn_desc({samples, in}, Layout::plain),
            .weights = onednn_desc({out, in}, Layout::plain),
            .bias = bias ? onednn_desc({out}, Layout::plain) : dnnl::memory::desc(),
            .destination = onednn_desc({samples, out}, Layout::plain)};
  }
};

/// What backward primitives want as a hint.
dnnl::inner_product_forward::primitive_desc& forward_of(OneDnn& onednn, const Problem& problem) {
  return onednn.cached<dnnl::inner_product_forward::primitive_desc>(
      problem.key(11), [&] { return inner_product_forward(onednn.engine(), problem.descs()); });
}

/// The weights as the kernels read them.
Tensor packed_weights(const Tensor& weight) {
  const LinearKernels& kernels = linear_kernels();
  const int64_t out = weight.shape()[0], in = weight.shape()[1], width = kernels.panel_outputs;
  const Tensor packed =
      Tensor::empty(weight.device(), {kernels.packed_floats(out, in)}, {.purpose = MemoryPurpose::workspace});
  for_each_unit(weight, kernels.panels(out), width * in, [&](int64_t panel, Pieces& pieces) {
    const int64_t begin = panel * width, rows = std::min(width, out - begin);
    kernels.pack(pieces.read(weight, begin * in, rows * in), rows, in, packed.data<float>() + begin * in);
  });
  return packed;
}

}  // namespace

Tensor linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
  const int64_t samples = x.shape()[0], in = weight.shape()[1], out = weight.shape()[0];
  Device& device = x.device();
  Tensor y = Tensor::empty(device, {samples, out}, {.dtype = x.dtype()});
  if (y.elements() == 0) return y;
  // Our own product: oneDNN's adds in an order that depends on its threads, and packs plain weights again and again. A
  // sample's bits depend on nothing but itself, so evaluation shows the same figures on any devices.
  const Tensor packed = packed_weights(weight);
  const Tensor added = bias.defined() ? as_f32(bias, bias.layout()) : bias;
  const LinearKernels& kernels = linear_kernels();
  const bool rounded = y.dtype() != DType::f32;
  const PieceRoom room(x, kernels.block_rows * in);
  parallel_parts(device, samples, kernels.tile_rows, [&](int64_t part, int64_t first, int64_t last) {
    const int64_t step = rounded ? kernels.block_rows : last - first;
    for (int64_t row = first; row < last; row += step) {
      Pieces pieces(room.of(part));
      const int64_t rows = std::min(step, last - row);
      kernels.multiply({.rows = rows,
                        .in = in,
                        .out = out,
                        .x = pieces.read(x, row * in, rows * in),
                        .packed = packed.data<float>(),
                        .bias = added.defined() ? added.data<float>() : nullptr,
                        .relu = relu,
                        .y = rounded ? nullptr : y.data<float>() + row * out,
                        .rounded = rounded ? y.data<Bfloat16>() + row * out : nullptr});
    }
  });
  return y;
}

Tensor linear_backward_data(const Tensor& weight, const Tensor& output_gradient) {
  const Problem problem{output_gradient.shape()[0], weight.shape()[1], weight.shape()[0], false};
  Tensor gradient = Tensor::empty(weight.device(), {problem.samples, problem.in}, {.dtype = output_gradient.dtype()});
  if (gradient.elements() == 0) return gradient;
  OneDnn& onednn = OneDnn::of(weight.device());
  BackwardData& backward = onednn.cached<BackwardData>(problem.key(12), [&] {
    auto desc = inner_product_backward_data(onednn.engine(), problem.descs(), forward_of(onednn, problem));
    return BackwardData{desc, dnnl::inner_product_backward_data(desc)};
  });
  const Tensor computed = f32_for(gradient), weights = as_f32(weight, Layout::plain),
               incoming = as_f32(output_gradient, Layout::plain);
  onednn.execute(backward.primitive, backward.desc.scratchpad_desc(),
                 {{DNNL_ARG_DIFF_SRC, onednn.memory(backward.desc.diff_src_desc(), computed)},
                  {DNNL_ARG_WEIGHTS, onednn.memory(backward.desc.weights_desc(), weights)},
                  {DNNL_ARG_DIFF_DST, onednn.memory(backward.desc.diff_dst_desc(), incoming)}});
  round_into(computed, gradient);
  return gradient;
}

void linear_backward_weights(const Tensor& x, const Tensor& output_gradient, const LinearWeightGradients& gradients) {
  const bool with_bias = gradients.bias.defined();
  if (x.elements() == 0) {
    if (!gradients.accumulate_weight) gradients.weight.fill_zero();
    if (with_bias && !gradients.accumulate_bias) gradients.bias.fill_zero();
    return;
  }
  const Problem problem{x.shape()[0], x.shape()[1], output_gradient.shape()[1], with_bias};
  OneDnn& onednn = OneDnn::of(x.device());
  BackwardWeights& backward = onednn.cached<BackwardWeights>(problem.key(13), [&] {
    auto desc = inner_product_backward_weights(onednn.engine(), problem.descs(), forward_of(onednn, problem));
    return BackwardWeights{desc, dnnl::inner_product_backward_weights(desc)};
  });
  const auto target = [&](const Tensor& gradient, bool accumulate) {
    return accumulate ? Tensor::empty(x.device(), gradient.shape(), {.purpose = MemoryPurpose::workspace}) : gradient;
  };
  const Tensor weight = target(gradients.weight, gradients.accumulate_weight);
  const Tensor source = as_f32(x, Layout::plain), incoming = as_f32(output_gradient, Layout::plain);
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, onednn.memory(backward.desc.src_desc(), source)},
      {DNNL_ARG_DIFF_DST, onednn.memory(backward.desc.diff_dst_desc(), incoming)},
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
