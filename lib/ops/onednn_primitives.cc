#include "ops/onednn_primitives.h"

namespace dptrain::ops {
namespace {

using dnnl::memory;

dnnl::primitive_attr attributes(bool relu = false) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops after;
#if DNNL_VERSION_MAJOR >= 3
    after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.f, 0.f);
#else
    after.append_eltwise(1.f, dnnl::algorithm::eltwise_relu, 0.f, 0.f);
#endif
    attributes.set_post_ops(after);
  }
  return attributes;
}

memory::dims twice(int64_t size) { return {size, size}; }

memory::dims after(const PoolingDescs& d) { return {d.padding_bottom, d.padding_right}; }

}  // namespace

// Propagation kinds for training steps. Evaluation uses the training kinds too, so that a model's outputs are the same
// bits in both.
constexpr auto kForward = dnnl::prop_kind::forward_training;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

#if DNNL_VERSION_MAJOR >= 3

dnnl::convolution_forward::primitive_desc convolution_forward(const dnnl::engine& engine, const ConvolutionDescs& d) {
  return {engine,        kForward,        kDirect,          d.source,         d.weights,         d.bias,
          d.destination, twice(d.stride), twice(d.padding), twice(d.padding), attributes(d.relu)};
}

dnnl::convolution_backward_data::primitive_desc convolution_backward_data(
    const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::convolution_forward::primitive_desc& hint) {
  return {engine,          kDirect,          d.source,         d.weights, d.destination,
          twice(d.stride), twice(d.padding), twice(d.padding), hint,      attributes()};
}

dnnl::convolution_backward_weights::primitive_desc convolution_backward_weights(
    const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::convolution_forward::primitive_desc& hint) {
  return {engine,          kDirect,          d.source,         d.weights, d.bias,      d.destination,
          twice(d.stride), twice(d.padding), twice(d.padding), hint,      attributes()};
}

dnnl::pooling_forward::primitive_desc pooling_forward(const dnnl::engine& engine, const PoolingDescs& d) {
  return {engine,          kForward, d.algorithm,      d.source, d.destination, twice(d.stride),
          twice(d.kernel), twice(0), twice(d.padding), after(d), attributes()};
}

dnnl::pooling_backward::primitive_desc pooling_backward(const dnnl::engine& engine, const PoolingDescs& d,
                                                        const dnnl::pooling_forward::primitive_desc& hint) {
  return {engine,   d.algorithm,      d.source, d.destination, twice(d.stride), twice(d.kernel),
          twice(0), twice(d.padding), after(d), hint,          attributes()};
}

#else

dnnl::convolution_forward::primitive_desc convolution_forward(const dnnl::engine& engine, const ConvolutionDescs& d) {
  const auto make = [&](auto... bias) {
    return dnnl::convolution_forward::desc(kForward, kDirect, d.source, d.weights, bias..., d.destination,
                                           twice(d.stride), twice(d.padding), twice(d.padding));
  };
  return {d.bias.is_zero() ? make() : make(d.bias), attributes(d.relu), engine};
}

dnnl::convolution_backward_data::primitive_desc convolution_backward_data(
    const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::convolution_forward::primitive_desc& hint) {
  const dnnl::convolution_backward_data::desc desc(kDirect, d.source, d.weights, d.destination, twice(d.stride),
                                                   twice(d.padding), twice(d.padding));
  return {desc, attributes(), engine, hint};
}

dnnl::convolution_backward_weights::primitive_desc convolution_backward_weights(
    const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::convolution_forward::primitive_desc& hint) {
  const auto make = [&](auto... bias) {
    return dnnl::convolution_backward_weights::desc(kDirect, d.source, d.weights, bias..., d.destination,
                                                    twice(d.stride), twice(d.padding), twice(d.padding));
  };
  return {d.bias.is_zero() ? make() : make(d.bias), attributes(), engine, hint};
}

dnnl::pooling_forward::primitive_desc pooling_forward(const dnnl::engine& engine, const PoolingDescs& d) {
  const dnnl::pooling_forward::desc desc(kForward, d.algorithm, d.source, d.destination, twice(d.stride),
                                         twice(d.kernel), twice(d.padding), after(d));
  return {desc, attributes(), engine};
}

dnnl::pooling_backward::primitive_desc pooling_backward(const dnnl::engine& engine, const PoolingDescs& d,
                                                        const dnnl::pooling_forward::primitive_desc& hint) {
  const dnnl::pooling_backward::desc desc(d.algorithm, d.source, d.destination, twice(d.stride), twice(d.kernel),
                                          twice(d.padding), after(d));
  return {desc, attributes(), engine, hint};
}

#endif

}  // namespace dptrain::ops
