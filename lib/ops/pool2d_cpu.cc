#include "ops/pool2d_cpu.h"

#include <algorithm>

#include "ops/f32_operands.h"
#include "ops/max_pool_cpu.h"
#include "ops/max_pool_place.h"
#include "ops/onednn_primitives.h"

namespace dptrain::ops::cpu {
namespace {

struct Forward {
  dnnl::pooling_forward::primitive_desc desc;
  dnnl::pooling_forward primitive;
};
struct Backward {
  dnnl::pooling_backward::primitive_desc desc;
  dnnl::pooling_backward primitive;
};

dnnl::algorithm algorithm_of(Pooling pooling, const Pool2dOptions& options) {
  if (pooling == Pooling::max) return dnnl::algorithm::pooling_max;
  // Without padding, only the area that a ceiling adds past the edge could be counted, and it must not be.
  return options.padding == 0 ? dnnl::algorithm::pooling_avg_exclude_padding
                              : dnnl::algorithm::pooling_avg_include_padding;
}

PrimitiveKey key_of(int64_t primitive, const TensorForm& x, Pooling pooling, const Pool2dOptions& o) {
  return {primitive,  x.shape[0],
          x.shape[1], x.shape[2],
          x.shape[3], static_cast<int64_t>(x.layout),
          o.kernel,   o.stride,
          o.padding,  o.ceil + 2 * static_cast<int64_t>(pooling)};
}

PoolingDescs descs_of(const TensorForm& x, const Shape& y, Pooling pooling, const Pool2dOptions& o) {
  const auto padding_after = [&](int dimension) {
    return (y[dimension] - 1) * o.stride + o.kernel - x.shape[dimension] - o.padding;
  };
  return {.algorithm = algorithm_of(pooling, o),
          .source = onednn_desc(x.shape, x.layout),
          .destination = onednn_desc(y, x.layout),
          .kernel = o.kernel,
          .stride = o.stride,
          .padding = o.padding,
          .padding_bottom = padding_after(2),
          .padding_right = padding_after(3)};
}

Forward& forward_of(OneDnn& onednn, const TensorForm& x, const Shape& y, Pooling pooling,
                    const Pool2dOptions& options) {
  return onednn.cached<Forward>(key_of(21, x, pooling, options), [&] {
    auto desc = pooling_forward(onednn.engine(), descs_of(x, y, pooling, options));
    return Forward{desc, dnnl::pooling_forward(desc)};
  });
}

Backward& backward_of(OneDnn& onednn, const TensorForm& x, const Shape& y, Pooling pooling,
                      const Pool2dOptions& options) {
  return onednn.cached<Backward>(key_of(22, x, pooling, options), [&] {
    auto desc = pooling_backward(onednn.engine(), descs_of(x, y, pooling, options),
                                 forward_of(onednn, x, y, pooling, options).desc);
    return Backward{desc, dnnl::pooling_backward(desc)};
  });
}

/// Samples that are pooled at once, and their bytes in the workspace of maxima.
struct Block {
  int64_t samples;
  int64_t workspace_bytes;

  /// Returns the workspace of the block that begins at sample `begin`.
  Tensor workspace_of(const Tensor& workspace, int64_t begin) const {
    return workspace.part(begin / samples * workspace_bytes, DType::u8, {workspace_bytes});
  }
};

Block block_of(const Tensor& x, const Shape& y, Pooling pooling, const Pool2dOptions& options) {
  const int64_t samples = samples_at_once(x);
  if (pooling != Pooling::max) return {.samples = samples, .workspace_bytes = 0};
  OneDnn& onednn = OneDnn::of(x.device());
  const Forward& forward = forward_of(onednn, x.samples(0, samples), y.with_first(samples), pooling, options);
  return {.samples = samples, .workspace_bytes = static_cast<int64_t>(forward.desc.workspace_desc().get_size())};
}

/// Whether our own max pooling is used; oneDNN's is left with the windows that are too large for ours.
bool is_ours(Pooling pooling, const Pool2dOptions& options) {
  return pooling == Pooling::max && options.kernel <= kLargestWindowOfPlaces;
}

}  // namespace

Pool2dResult pool2d_forward(const Tensor& x, const Shape& output, Pooling pooling, const Pool2dOptions& options) {
  if (is_ours(pooling, options)) return max_pool_forward(x, output, options);
  Pool2dResult result{.y = Tensor::empty(x.device(), output, {.dtype = x.dtype(), .layout = x.layout()}),
                      .workspace = {}};
  if (result.y.elements() == 0) return result;
  OneDnn& onednn = OneDnn::of(x.device());
  const int64_t samples = x.shape()[0];
  const Block block = block_of(x, output, pooling, options);
  if (pooling == Pooling::max) {
    const int64_t blocks = (samples + block.samples - 1) / block.samples;
    result.workspace = Tensor::empty(x.device(), {blocks * block.workspace_bytes}, {.dtype = DType::u8});
  }
  for (int64_t begin = 0; begin < samples; begin += block.samples) {
    const int64_t end = std::min(samples, begin + block.samples);
    const Tensor source = as_f32(x.samples(begin, end), x.layout());
    const Tensor target = result.y.samples(begin, end), y = f32_for(target);
    Forward& forward = forward_of(onednn, source, y.shape(), pooling, options);
    std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, onednn.memory(forward.desc.src_desc(), source)},
                                                       {DNNL_ARG_DST, onednn.memory(forward.desc.dst_desc(), y)}};
    if (pooling == Pooling::max)
      arguments.emplace(DNNL_ARG_WORKSPACE,
                        onednn.memory(forward.desc.workspace_desc(), block.workspace_of(result.workspace, begin)));
    onednn.execute(forward.primitive, forward.desc.scratchpad_desc(), arguments);
    round_into(y, target);
  }
  return result;
}

Tensor pool2d_backward(const TensorForm& x, const Tensor& workspace, const Tensor& output_gradient, Pooling pooling,
                       const Pool2dOptions& options) {
  if (is_ours(pooling, options)) return max_pool_backward(x, workspace, output_gradient, options);
  Tensor gradient = x.empty();
  if (gradient.elements() == 0) return gradient;
  OneDnn& onednn = OneDnn::of(x.device);
  const int64_t samples = x.shape[0];
  const Block block = block_of(gradient, output_gradient.shape(), pooling, options);
  for (int64_t begin = 0; begin < samples; begin += block.samples) {
    const int64_t end = std::min(samples, begin + block.samples);
    const Tensor incoming = as_f32(output_gradient.samples(begin, end), x.layout);
    const Tensor target = gradient.samples(begin, end), computed = f32_for(target);
    Backward& backward = backward_of(onednn, computed, incoming.shape(), pooling, options);
    std::unordered_map<int, dnnl::memory> arguments = {
        {DNNL_ARG_DIFF_SRC, onednn.memory(backward.desc.diff_src_desc(), computed)},
        {DNNL_ARG_DIFF_DST, onednn.memory(backward.desc.diff_dst_desc(), incoming)}};
    if (pooling == Pooling::max)
      arguments.emplace(DNNL_ARG_WORKSPACE,
                        onednn.memory(backward.desc.workspace_desc(), block.workspace_of(workspace, begin)));
    onednn.execute(backward.primitive, backward.desc.scratchpad_desc(), arguments);
    round_into(computed, target);
  }
  return gradient;
}

}  // namespace dptrain::ops::cpu
