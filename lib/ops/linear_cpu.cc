#include "ops/linear_cpu.h"

#include <algorithm>

#include "device/parallel_for.h"
#include "ops/f32_operands.h"
#include "ops/f32_pieces.h"
#include "ops/linear_kernels.h"
#include "ops/linear_tiles_cpu.h"
#include "ops/tile_product.h"

// By our own products: oneDNN's forward adds in an order that depends on its threads, and all of its passes pack plain
// matrices again and again, into memory that they take from the system and give back at each call.

namespace dptrain::ops::cpu {
namespace {

/// The weights as forward reads them.
Tensor packed_weights(const Tensor& weight) {
  const LinearKernels& kernels = linear_kernels();
  const int64_t out = weight.shape()[0], in = weight.shape()[1], width = kernels.panel_columns;
  const Tensor packed =
      Tensor::empty(weight.device(), {kernels.packed_floats(out, in)}, {.purpose = MemoryPurpose::workspace});
  for_each_unit(weight, kernels.panels(out), width * in, [&](int64_t panel, Pieces& pieces) {
    const int64_t begin = panel * width, rows = std::min(width, out - begin);
    kernels.pack(pieces.read(weight, begin * in, rows * in), rows, in, packed.data<float>() + begin * in);
  });
  return packed;
}

/// Rows of a depth that are multiplied at once: a panel of them stays in the first-level cache, and rounding grows with
/// their number only, as the sums of such blocks are added in order.
constexpr int64_t kDepth = 256;

/// A [depth, columns] matrix as the kernels read it from the right, block after block of the depth.
class Panels {
 public:
  explicit Panels(const Tensor& matrix)
      : depth_(matrix.shape()[0]),
        columns_(matrix.shape()[1]),
        packed_(Tensor::empty(matrix.device(), {linear_kernels().packed_floats(columns_, depth_)},
                              {.purpose = MemoryPurpose::workspace})) {
    parallel_for(matrix.device(), blocks(), [&](int64_t block) {
      linear_kernels().pack_rows(matrix.data<float>() + block * kDepth * columns_, count(block), columns_, of(block));
    });
  }

  int64_t columns() const { return columns_; }
  int64_t blocks() const { return (depth_ + kDepth - 1) / kDepth; }
  int64_t count(int64_t block) const { return std::min(kDepth, depth_ - block * kDepth); }
  float* of(int64_t block) const {
    return packed_.data<float>() + linear_kernels().packed_floats(columns_, block * kDepth);
  }

 private:
  int64_t depth_, columns_;
  Tensor packed_;
};

/// product = left * right; all f32 and plain, [rows, depth] and [depth, columns].
void multiply(const Tensor& left, const Tensor& right, const Tensor& product) {
  const int64_t depth = right.shape()[0];
  const Panels panels(right);
  parallel_ranges(product.device(), product.shape()[0], linear_kernels().tile_rows, [&](int64_t first, int64_t last) {
    for (int64_t block = 0; block < panels.blocks(); ++block)
      linear_kernels().multiply({.rows = last - first,
                                 .depth = panels.count(block),
                                 .columns = panels.columns(),
                                 .x = left.data<float>() + first * depth + block * kDepth,
                                 .x_stride = depth,
                                 .panels = panels.of(block),
                                 .accumulate = block > 0,
                                 .y = product.data<float>() + first * panels.columns()});
  });
}

/// product = the transpose of `left` * right, or product += that. left: [depth, rows].
void multiply_transposed(const Tensor& left, const Tensor& right, const Tensor& product, bool accumulate) {
  const LinearKernels& kernels = linear_kernels();
  const int64_t rows = product.shape()[0], tile_rows = kernels.tile_rows;
  const Panels panels(right);
  const int64_t room = (rows + tile_rows - 1) / tile_rows * tile_rows * kDepth;
  const Tensor tiles = Tensor::empty(product.device(), {room}, {.purpose = MemoryPurpose::workspace});
  parallel_ranges(product.device(), rows, tile_rows, [&](int64_t first, int64_t last) {
    float* own = tiles.data<float>() + first * kDepth;
    for (int64_t block = 0; block < panels.blocks(); ++block) {
      kernels.pack_tiles(left.data<float>() + block * kDepth * rows + first, rows, panels.count(block), last - first,
                         own);
      kernels.multiply({.rows = last - first,
                        .depth = panels.count(block),
                        .columns = panels.columns(),
                        .x = own,
                        .x_stride = 0,
                        .panels = panels.of(block),
                        .accumulate = accumulate || block > 0,
                        .y = product.data<float>() + first * panels.columns()});
    }
  });
}

/// sums = the sums of the columns of `rows`, or sums += them.
void sum_columns(const Tensor& rows, const Tensor& sums, bool accumulate) {
  // Columns that are summed at once, and below which another thread costs more than it brings.
  constexpr int64_t kColumns = 128;
  const int64_t width = sums.elements();
  parallel_ranges(rows.device(), width, kColumns, [&](int64_t first, int64_t last) {
    for (int64_t column = first; column < last; column += kColumns) {
      const int64_t count = std::min(kColumns, last - column);
      float* to = sums.data<float>() + column;
      double partial[kColumns] = {};
      linear_kernels().add_column_sums(rows.data<float>() + column, rows.shape()[0], width, count, partial);
      for (int64_t c = 0; c < count; ++c) to[c] = static_cast<float>(partial[c] + (accumulate ? to[c] : 0.f));
    }
  });
}

}  // namespace

Tensor linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
  const int64_t samples = x.shape()[0], in = weight.shape()[1], out = weight.shape()[0];
  Device& device = x.device();
  Tensor y = Tensor::empty(device, {samples, out}, {.dtype = x.dtype()});
  if (y.elements() == 0) return y;
  if (tile_kernels() != nullptr) {
    linear_forward_by_tiles(x, weight, bias, relu, y);
    return y;
  }
  // A sample's bits depend on nothing but itself, so evaluation shows the same figures on any devices.
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
                        .depth = in,
                        .columns = out,
                        .x = pieces.read(x, row * in, rows * in),
                        .x_stride = in,
                        .panels = packed.data<float>(),
                        .bias = added.defined() ? added.data<float>() : nullptr,
                        .relu = relu,
                        .y = rounded ? nullptr : y.data<float>() + row * out,
                        .rounded = rounded ? y.data<Bfloat16>() + row * out : nullptr});
    }
  });
  return y;
}

Tensor linear_backward_data(const Tensor& weight, const Tensor& output_gradient) {
  Tensor gradient = Tensor::empty(weight.device(), {output_gradient.shape()[0], weight.shape()[1]},
                                  {.dtype = output_gradient.dtype()});
  if (gradient.elements() == 0) return gradient;
  if (tile_kernels() != nullptr) {
    linear_backward_data_by_tiles(weight, output_gradient, gradient);
    return gradient;
  }
  const Tensor computed = f32_for(gradient), incoming = as_f32(output_gradient, Layout::plain);
  multiply(incoming, as_f32(weight, Layout::plain), computed);
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
  if (tile_kernels() != nullptr && !with_bias)
    return linear_backward_weight_by_tiles(x, output_gradient, gradients.weight, gradients.accumulate_weight);
  const Tensor incoming = as_f32(output_gradient, Layout::plain);
  if (tile_kernels() != nullptr)
    linear_backward_weight_by_tiles(x, output_gradient, gradients.weight, gradients.accumulate_weight);
  else
    multiply_transposed(incoming, as_f32(x, Layout::plain), gradients.weight, gradients.accumulate_weight);
  if (with_bias) sum_columns(incoming, gradients.bias, gradients.accumulate_bias);
}

}  // namespace dptrain::ops::cpu
