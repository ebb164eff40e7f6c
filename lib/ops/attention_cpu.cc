#include "ops/attention_cpu.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "device/parallel_for.h"
#include "ops/attention_kernels.h"
#include "ops/dropout_cpu.h"

namespace dptrain::ops::cpu {
namespace {

/// Calls body(head, offset) for every head of every sample, whose matrices begin at `offset` of the tensors. A head is
/// computed by one thread, so that its bits don't depend on how many there are.
template <class Body>
void for_each_head(const AttentionInputs& in, const AttentionOptions& options, const Tensor& log_sums,
                   const Body& body) {
  Device& device = in.query.device();
  const Shape& shape = in.query.shape();
  const int64_t positions = shape[1], columns = shape[2], width = columns / options.heads;
  const auto length_of = [&](int64_t n) { return in.lengths.defined() ? in.lengths.data<int32_t>()[n] : positions; };
  for (int64_t n = 0; n < shape[0]; ++n)
    DPTRAIN_CHECK(length_of(n) >= 0 && length_of(n) <= positions, "attention: {} keys of {}", length_of(n), positions);
  const int64_t tasks = shape[0] * options.heads, parts = std::min<int64_t>(device.threads(), tasks);
  // Memory is taken here: where there is none left, the exception couldn't leave the threads below.
  const int64_t scratch_floats = attention_kernels().scratch_floats(positions, width);
  const Tensor scratch = Tensor::empty(device, {parts * scratch_floats}, {.purpose = MemoryPurpose::workspace});
  parallel_for(device, parts, [&](int64_t part) {
    for (int64_t task = part * tasks / parts; task < (part + 1) * tasks / parts; ++task) {
      const int64_t n = task / options.heads, head = task % options.heads;
      const int64_t offset = n * positions * columns + head * width;
      AttentionHead work{.positions = positions,
                         .width = width,
                         .stride = columns,
                         .length = length_of(n),
                         .head = head,
                         .scale = 1.f / std::sqrt(static_cast<float>(width)),
                         .dropout = {},
                         .query = in.query.data<float>() + offset,
                         .key = in.key.data<float>() + offset,
                         .value = in.value.data<float>() + offset,
                         .log_sums = log_sums.data<float>() + task * positions,
                         .scratch = scratch.data<float>() + part * scratch_floats};
      if (options.dropout > 0)
        work.dropout = {.counter = dropout_counter(options.key, n),
                        .threshold = dropout_threshold(options.dropout),
                        .scale = 1.f / (1.f - options.dropout)};
      body(work, offset);
    }
  });
}

}  // namespace

AttentionForward attention_forward(const AttentionInputs& in, const AttentionOptions& options) {
  const Shape& shape = in.query.shape();
  const AttentionForward forward{.y = Tensor::empty(in.query.device(), shape),
                                 .kept = Tensor::empty(in.query.device(), {shape[0], options.heads, shape[1]})};
  if (forward.y.elements() == 0) return forward;
  for_each_head(in, options, forward.kept, [&](const AttentionHead& head, int64_t offset) {
    attention_kernels().forward(head, forward.y.data<float>() + offset);
  });
  return forward;
}

AttentionGradients attention_backward(const AttentionInputs& in, const AttentionForward& forward,
                                      const Tensor& incoming, const AttentionOptions& options) {
  const auto empty = [&] { return Tensor::empty(in.query.device(), in.query.shape()); };
  const AttentionGradients gradients{.query = empty(), .key = empty(), .value = empty()};
  if (incoming.elements() == 0) return gradients;
  for_each_head(in, options, forward.kept, [&](const AttentionHead& head, int64_t offset) {
    attention_kernels().backward(head, {.y = forward.y.data<float>() + offset,
                                        .incoming = incoming.data<float>() + offset,
                                        .query = gradients.query.data<float>() + offset,
                                        .key = gradients.key.data<float>() + offset,
                                        .value = gradients.value.data<float>() + offset});
  });
  return gradients;
}

}  // namespace dptrain::ops::cpu
