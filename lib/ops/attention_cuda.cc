#include "ops/attention_cuda.h"

#include "ops/attention_fused_cuda.h"
#include "ops/attention_softmax_cuda.h"
#include "ops/cublaslt_product_cuda.h"

// Attention that isn't fused. It computes its products as batches of cuBLASLt, with one product for each head of each
// sample. A batch has a single stride, but the stride between heads differs from the stride between samples. So tensors
// are brought to [N * H, S, D] first, and the results are brought back.

namespace dptrain::ops::cuda {
namespace {

constexpr MemoryPurpose kWorkspace = MemoryPurpose::workspace;

/// Returns a * b, [N * H, rows, columns], in `dtype`.
Tensor product(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, DType dtype) {
  const Shape shape = {a.shape()[0], a.shape()[transpose_a ? 2 : 1], b.shape()[transpose_b ? 1 : 2]};
  const Tensor out = Tensor::empty(a.device(), shape, {.dtype = dtype, .purpose = kWorkspace});
  multiply({.a = a, .b = b, .out = out, .transpose_a = transpose_a, .transpose_b = transpose_b});
  return out;
}

/// Whether dropout drops anything, so that the probabilities after it need a tensor of their own.
bool drops(const AttentionOptions& options) { return dropout_threshold(options.dropout) > 0; }

bool is_fused(const AttentionInputs& in, const AttentionOptions& options) {
  return fuses_attention(in.query.dtype(), in.query.shape()[2] / options.heads);
}

/// The shape of scores and probabilities: one number for every key of every query.
Shape square(const AttentionInputs& in, const AttentionOptions& options) {
  const Shape& shape = in.query.shape();
  return {shape[0] * options.heads, shape[1], shape[1]};
}

}  // namespace

AttentionForward attention_forward(const AttentionInputs& in, const AttentionOptions& options) {
  const Shape& shape = in.query.shape();
  const DType dtype = in.query.dtype();
  Device& device = in.query.device();
  if (in.query.elements() == 0)
    return {.y = Tensor::empty(device, shape, {.dtype = dtype}),
            .kept = Tensor::empty(device, {shape[0], options.heads, shape[1]})};
  if (is_fused(in, options)) return fused_attention_forward(in, options);
  const Tensor query = split_heads(in.query, options.heads), key = split_heads(in.key, options.heads);
  const Tensor scores = product(query, key, false, true, DType::f32);
  const Tensor probabilities = Tensor::empty(device, square(in, options), {.dtype = dtype});
  const Tensor dropped = drops(options)
                             ? Tensor::empty(device, square(in, options), {.dtype = dtype, .purpose = kWorkspace})
                             : probabilities;
  attention_softmax(in, options, scores, probabilities, dropped);
  const Tensor y = product(dropped, split_heads(in.value, options.heads), false, false, dtype);
  return {.y = merge_heads(y, shape, options.heads),
          .kept = probabilities.reshaped({shape[0], options.heads, shape[1], shape[1]})};
}

AttentionGradients attention_backward(const AttentionInputs& in, const AttentionForward& forward,
                                      const Tensor& incoming, const AttentionOptions& options) {
  const Shape& shape = in.query.shape();
  const DType dtype = in.query.dtype();
  Device& device = in.query.device();
  const int64_t heads = options.heads;
  if (incoming.elements() == 0) {
    const Tensor none = Tensor::empty(device, shape, {.dtype = dtype});
    return {.query = none, .key = none, .value = none};
  }
  if (is_fused(in, options)) return fused_attention_backward(in, forward, incoming, options);
  const Tensor of_y = split_heads(incoming, heads);
  const Tensor dropped_gradients = product(of_y, split_heads(in.value, heads), false, true, DType::f32);
  const Tensor probabilities = forward.kept.reshaped(square(in, options));
  const TensorOptions workspace{.dtype = dtype, .purpose = kWorkspace};
  const Tensor score_gradients = Tensor::empty(device, square(in, options), workspace);
  const Tensor dropped = drops(options) ? Tensor::empty(device, square(in, options), workspace) : probabilities;
  attention_softmax_backward(in, options, probabilities, dropped_gradients, score_gradients, dropped);
  const auto merged = [&](const Tensor& x) { return merge_heads(x, shape, heads); };
  return {.query = merged(product(score_gradients, split_heads(in.key, heads), false, false, dtype)),
          .key = merged(product(score_gradients, split_heads(in.query, heads), true, false, dtype)),
          .value = merged(product(dropped, of_y, true, false, dtype))};
}

}  // namespace dptrain::ops::cuda
