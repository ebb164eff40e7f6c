#include "ops/attention.h"

#include "base/check.h"
#include "ops/attention_cpu.h"
#include "ops/attention_cuda.h"
#include "ops/dispatch.h"

namespace dptrain::ops {
namespace {

Device& checked(const char* op, const AttentionInputs& in, const AttentionOptions& options) {
  Device& device =
      common_device(op, {&in.query, &in.key, &in.value, &in.lengths, &options.key.epoch, &options.key.sample_ids});
  const Shape& shape = in.query.shape();
  DPTRAIN_CHECK(shape.rank() == 3 && options.heads > 0 && shape[2] % options.heads == 0, "{}: queries {} of {} heads",
                op, in.query.text(), options.heads);
  require_shape(op, "keys", in.key.shape(), shape);
  require_shape(op, "values", in.value.shape(), shape);
  if (in.lengths.defined()) require_shape(op, "lengths", in.lengths.shape(), {shape[0]});
  DPTRAIN_CHECK(options.dropout >= 0.f && options.dropout < 1.f, "{}: dropout of {}", op, options.dropout);
  if (options.dropout > 0) {
    const DropoutKey& key = options.key;
    DPTRAIN_CHECK(key.sample_ids.defined() && key.sample_ids.elements() == shape[0] && key.epoch.defined(),
                  "{}: dropout of {} without its epoch and sample ids", op, in.query.text());
  }
  return device;
}

/// Operations of one product of [S, D] and [D, S] matrices, over all samples and heads.
double flops_of_product(const Shape& query) {
  return 2.0 * static_cast<double>(query.elements()) * static_cast<double>(query[1]);
}

bool keeps_probabilities(const Device& device, const AttentionInputs& in, const AttentionOptions& options) {
  return device.kind() == DeviceKind::cuda &&
         !cuda::fuses_attention(in.query.dtype(), in.query.shape()[2] / options.heads);
}

/// Number of products in backward; forward has two. Backward has four if it reads the probabilities. Otherwise it
/// computes them again: one more on a CPU worker, and three more on a GPU, which computes both the probabilities and
/// their gradients twice, by queries and by keys.
int backward_products(const Device& device, const AttentionInputs& in, const AttentionOptions& options) {
  if (keeps_probabilities(device, in, options)) return 4;
  return device.kind() == DeviceKind::cpu ? 5 : 7;
}

}  // namespace

AttentionForward attention_forward(const AttentionInputs& in, const AttentionOptions& options) {
  Device& device = checked("attention", in, options);
  count_flops(device, 2 * flops_of_product(in.query.shape()));
  return on_device(
      "attention", device,
      [&] {
        AttentionForward forward = cpu::attention_forward(in, options);
        const Shape& shape = in.query.shape();
        if (is_logged_gpu(device)) forward.dropout_bits = {};
        if (is_logged_gpu(device) && keeps_probabilities(device, in, options))
          forward.kept =
              Tensor::empty(device, {shape[0], options.heads, shape[1], shape[1]}, {.dtype = in.query.dtype()});
        return forward;
      },
      [&] { return cuda::attention_forward(in, options); });
}

AttentionGradients attention_backward(const AttentionInputs& in, const AttentionForward& forward,
                                      const Tensor& output_gradient, const AttentionOptions& options) {
  Device& device = checked("attention backward", in, options);
  common_device("attention backward", {&in.query, &forward.y, &forward.kept, &output_gradient});
  require_shape("attention backward", "output gradient", output_gradient.shape(), in.query.shape());
  count_flops(device, backward_products(device, in, options) * flops_of_product(in.query.shape()));
  return on_device(
      "attention backward", device, [&] { return cpu::attention_backward(in, forward, output_gradient, options); },
      [&] { return cuda::attention_backward(in, forward, output_gradient, options); });
}

}  // namespace dptrain::ops
