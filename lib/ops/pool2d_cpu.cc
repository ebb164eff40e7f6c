#include "ops/pool2d_cpu.h"

#include "ops/onednn_primitives.h"
#include "ops/reorder.h"

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
  // Without padding only a ceiling's overhang could be counted, and must not be.
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

}  // namespace

Pool2dResult pool2d_forward(const Tensor& x, const Shape& output, Pooling pooling, const Pool2dOptions& options) {
  Pool2dResult result{.y = Tensor::empty(x.device(), output, {.layout = x.layout()}), .workspace = {}};
  if (result.y.elements() == 0) return result;
  OneDnn& onednn = OneDnn::of(x.device());
  Forward& forward = forward_of(onednn, x, output, pooling, options);
  std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, onednn.memory(forward.desc.src_desc(), x)},
                                                     {DNNL_ARG_DST, onednn.memory(forward.desc.dst_desc(), result.y)}};
  if (pooling == Pooling::max) {
    result.workspace = onednn.opaque(forward.desc.workspace_desc(), MemoryPurpose::activations);
    arguments.emplace(DNNL_ARG_WORKSPACE, onednn.memory(forward.desc.workspace_desc(), result.workspace));
  }
  onednn.execute(forward.primitive, forward.desc.scratchpad_desc(), arguments);
  return result;
}

Tensor pool2d_backward(const TensorForm& x, const Tensor& workspace, const Tensor& output_gradient, Pooling pooling,
                       const Pool2dOptions& options) {
  Tensor gradient = x.empty();
  if (gradient.elements() == 0) return gradient;
  OneDnn& onednn = OneDnn::of(x.device);
  const Shape& y = output_gradient.shape();
  Backward& backward = onednn.cached<Backward>(key_of(22, x, pooling, options), [&] {
    auto desc = pooling_backward(onednn.engine(), descs_of(x, y, pooling, options),
                                 forward_of(onednn, x, y, pooling, options).desc);
    return Backward{desc, dnnl::pooling_backward(desc)};
  });
  const Tensor incoming = reorder(output_gradient, x.layout);
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_DIFF_SRC, onednn.memory(backward.desc.diff_src_desc(), gradient)},
      {DNNL_ARG_DIFF_DST, onednn.memory(backward.desc.diff_dst_desc(), incoming)}};
  if (pooling == Pooling::max)
    arguments.emplace(DNNL_ARG_WORKSPACE, onednn.memory(backward.desc.workspace_desc(), workspace));
  onednn.execute(backward.primitive, backward.desc.scratchpad_desc(), arguments);
  return gradient;
}

}  // namespace dptrain::ops::cpu
