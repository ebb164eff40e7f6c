#include "ops/layer_norm_cpu.h"

#include <algorithm>

#include "ops/dropout_cpu.h"
#include "ops/f32_pieces.h"
#include "ops/layer_norm_kernels.h"

namespace dptrain::ops::cpu {
namespace {

/// Rows that are summed one after the other; the sums of such blocks are then added in order.
constexpr int64_t kBlockRows = 32;
/// Below this many columns another thread costs more than it saves.
constexpr int64_t kColumnGrain = 64;

int64_t blocks_of(int64_t rows) { return (rows + kBlockRows - 1) / kBlockRows; }

/// sums = or += the column sums of row `row` of each block in `parts`, [blocks, 2, width].
void fold(const Tensor& parts, int64_t blocks, int64_t row, const Tensor& sums, bool accumulate) {
  const int64_t width = sums.elements();
  const float* from = parts.data<float>() + row * width;
  float* to = sums.data<float>();
  parallel_ranges(sums.device(), width, kColumnGrain, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      double sum = accumulate ? to[c] : 0;
      for (int64_t block = 0; block < blocks; ++block) sum += from[2 * block * width + c];
      to[c] = static_cast<float>(sum);
    }
  });
}

/// Returns the mask from element `at` on; null without dropout.
uint8_t* mask_of(const LayerNormForward& forward, int64_t at) {
  return forward.mask.defined() ? forward.mask.data<uint8_t>() + at : nullptr;
}

}  // namespace

void layer_norm_forward(const LayerNormInputs& in, float epsilon, const LayerNormForward& forward) {
  const int64_t rows = forward.mean.elements(), width = in.gamma.elements();
  const Tensor sum = in.residual.defined() ? forward.sum : Tensor();
  for_each_unit(in.x, blocks_of(rows), 4 * kBlockRows * width, [&](int64_t block, Pieces& pieces) {
    const int64_t row = block * kBlockRows, count = std::min(kBlockRows, rows - row);
    const int64_t at = row * width, elements = count * width;
    if (forward.mask.defined()) draw_mask_rows(forward.mask, row, row + count, dropout_threshold(in.dropout), in.key);
    layer_norm_kernels().forward({.x = pieces.read(in.x, at, elements),
                                  .residual = pieces.read(in.residual, at, elements),
                                  .gamma = in.gamma.data<float>(),
                                  .beta = in.beta.data<float>(),
                                  .mask = mask_of(forward, at),
                                  .scale = dropout_scale(forward.dropout),
                                  .epsilon = epsilon,
                                  .sum = pieces.write(sum, at, elements),
                                  .y = pieces.write(forward.y, at, elements),
                                  .mean = forward.mean.data<float>() + row,
                                  .inverse_deviation = forward.inverse_deviation.data<float>() + row},
                                 count, width);
  });
}

void layer_norm_backward(const LayerNormForward& forward, const Tensor& gamma, const Tensor& incoming,
                         const LayerNormParameterGradients& gradients, const LayerNormInputGradients& of) {
  const int64_t rows = forward.mean.elements(), width = gamma.elements(), blocks = blocks_of(rows);
  Device& device = gamma.device();
  const Tensor parts = Tensor::empty(device, {blocks * 2 * width}, {.purpose = MemoryPurpose::workspace});
  const Tensor masked = forward.mask.defined() ? of.x : Tensor();
  for_each_unit(of.residual, blocks, 4 * kBlockRows * width, [&](int64_t block, Pieces& pieces) {
    const int64_t row = block * kBlockRows, count = std::min(kBlockRows, rows - row);
    const int64_t at = row * width, elements = count * width;
    float* sums = parts.data<float>() + block * 2 * width;
    layer_norm_kernels().backward({.x = pieces.read(forward.sum, at, elements),
                                   .incoming = pieces.read(incoming, at, elements),
                                   .gamma = gamma.data<float>(),
                                   .mean = forward.mean.data<float>() + row,
                                   .inverse_deviation = forward.inverse_deviation.data<float>() + row,
                                   .mask = mask_of(forward, at),
                                   .scale = dropout_scale(forward.dropout),
                                   .gradient = pieces.write(of.residual, at, elements),
                                   .masked_gradient = pieces.write(masked, at, elements),
                                   .gamma_sums = sums,
                                   .beta_sums = sums + width},
                                  count, width);
  });
  fold(parts, blocks, 0, gradients.gamma, gradients.accumulate_gamma);
  fold(parts, blocks, 1, gradients.beta, gradients.accumulate_beta);
}

}  // namespace dptrain::ops::cpu
