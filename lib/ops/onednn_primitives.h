#pragma once

#include "ops/onednn.h"

namespace dptrain::ops {

// Primitive descriptors. oneDNN 2 and 3 make them differently; only onednn_primitives.cc knows how. All use scratchpads
// that the caller provides.

/// A direct convolution.
struct ConvolutionDescs {
  dnnl::memory::desc source, weights, bias, destination;  ///< an empty bias descriptor: no bias
  int64_t stride = 1;
  int64_t padding = 0;
  bool relu = false;  ///< forward only: the output is max(0, .)
};

dnnl::convolution_forward::primitive_desc convolution_forward(const dnnl::engine&, const ConvolutionDescs&);
dnnl::convolution_backward_data::primitive_desc convolution_backward_data(
    const dnnl::engine&, const ConvolutionDescs&, const dnnl::convolution_forward::primitive_desc& hint);
dnnl::convolution_backward_weights::primitive_desc convolution_backward_weights(
    const dnnl::engine&, const ConvolutionDescs&, const dnnl::convolution_forward::primitive_desc& hint);

struct PoolingDescs {
  dnnl::algorithm algorithm;
  dnnl::memory::desc source, destination;
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t padding = 0;
  int64_t padding_bottom = 0;  ///< as far as the last windows reach; may differ from the top's
  int64_t padding_right = 0;
};

dnnl::pooling_forward::primitive_desc pooling_forward(const dnnl::engine&, const PoolingDescs&);
dnnl::pooling_backward::primitive_desc pooling_backward(const dnnl::engine&, const PoolingDescs&,
                                                        const dnnl::pooling_forward::primitive_desc& hint);

}  // namespace dptrain::ops
