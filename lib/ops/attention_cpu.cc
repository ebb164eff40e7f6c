#include "ops/attention_cpu.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "ops/attention_kernels.h"
#include "ops/dropout_cpu.h"
#include "ops/f32_pieces.h"

namespace dptrain::ops::cpu {
namespace {

/// Calls body(head, rows, pieces) for each head of each sample. `rows` are the head's matrix in each tensor; the body
/// reads and writes `matrices` such matrices besides the inputs. One thread computes a head, so that its bits don't
/// depend on the number of threads.
template <class Body>
void for_each_head(const AttentionInputs& in, const AttentionOptions& options, const AttentionForward& forward,
                   int64_t matrices, const Body& body) {
  Device& device = in.query.device();
  const Shape& shape = in.query.shape();
  const int64_t positions = shape[1], columns = shape[2], width = columns / options.heads;
  const auto length_of = [&](int64_t n) { return in.lengths.defined() ? in.lengths.data<int32_t>()[n] : positions; };
  for (int64_t n = 0; n < shape[0] && device.computes(); ++n)
    DPTRAIN_CHECK(length_of(n) >= 0 && length_of(n) <= positions, "attention: {} keys of {}", length_of(n), positions);
  const int64_t tasks = shape[0] * options.heads;
  const int pieces_of_number = in.query.dtype() == DType::f32 ? 3 : 1;
  // Memory is allocated here, because an allocation failure's exception couldn't leave the threads below.
  const int64_t scratch_floats = attention_kernels(pieces_of_number).scratch_floats(positions, width, pieces_of_number);
  const int64_t most_parts = std::min<int64_t>(device.threads(), tasks);
  const Tensor scratch = Tensor::empty(device, {most_parts * scratch_floats}, {.purpose = MemoryPurpose::workspace});
  const PieceRoom room(in.query, (3 + matrices) * positions * width);
  parallel_parts(device, tasks, 1, [&](int64_t part, int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t n = task / options.heads, head = task % options.heads;
      const StorageRows rows{
          .at = n * positions * columns + head * width, .count = positions, .width = width, .stride = columns};
      Pieces pieces(room.of(part));
      AttentionHead work{.positions = positions,
                         .width = width,
                         .stride = Pieces::stride_of(in.query, rows),
                         .length = length_of(n),
                         .head = head,
                         .scale = 1.f / std::sqrt(static_cast<float>(width)),
                         .pieces = pieces_of_number,
                         .dropout = {},
                         .query = pieces.read(in.query, rows),
                         .key = pieces.read(in.key, rows),
                         .value = pieces.read(in.value, rows),
                         .log_sums = forward.kept.data<float>() + task * positions,
                         .scratch = scratch.data<float>() + part * scratch_floats};
      if (options.dropout > 0)
        work.dropout = {
            .counter = dropout_counter(options.key, n),
            .threshold = dropout_threshold(options.dropout),
            .scale = 1.f / (1.f - options.dropout),
            .kept = reinterpret_cast<uint16_t*>(forward.dropout_bits.data<uint8_t>()) + task * kept_words(positions)};
      body(work, rows, pieces);
    }
  });
}

}  // namespace

AttentionForward attention_forward(const AttentionInputs& in, const AttentionOptions& options) {
  const Shape& shape = in.query.shape();
  Device& device = in.query.device();
  AttentionForward forward{.y = Tensor::empty(device, shape, {.dtype = in.query.dtype()}),
                           .kept = Tensor::empty(device, {shape[0], options.heads, shape[1]})};
  if (options.dropout > 0)
    forward.dropout_bits =
        Tensor::empty(device, {shape[0], options.heads, 2 * kept_words(shape[1])}, {.dtype = DType::u8});
  if (forward.y.elements() == 0) return forward;
  for_each_head(in, options, forward, 1, [&](const AttentionHead& head, const StorageRows& rows, Pieces& pieces) {
    attention_kernels(head.pieces).forward(head, pieces.write(forward.y, rows));
  });
  return forward;
}

AttentionGradients attention_backward(const AttentionInputs& in, const AttentionForward& forward,
                                      const Tensor& incoming, const AttentionOptions& options) {
  const auto empty = [&] { return Tensor::empty(in.query.device(), in.query.shape(), {.dtype = in.query.dtype()}); };
  const AttentionGradients gradients{.query = empty(), .key = empty(), .value = empty()};
  if (incoming.elements() == 0) return gradients;
  for_each_head(in, options, forward, 5, [&](const AttentionHead& head, const StorageRows& rows, Pieces& pieces) {
    attention_kernels(head.pieces)
        .backward(head, {.y = pieces.read(forward.y, rows),
                         .incoming = pieces.read(incoming, rows),
                         .query = pieces.write(gradients.query, rows),
                         .key = pieces.write(gradients.key, rows),
                         .value = pieces.write(gradients.value, rows)});
  });
  return gradients;
}

}  // namespace dptrain::ops::cpu
