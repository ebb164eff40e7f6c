#include "ops/linear_tiles_cpu.h"

#include <algorithm>

#include "device/parallel_for.h"
#include "ops/f32_operands.h"
#include "ops/tile_product.h"

namespace dptrain::ops::cpu {
namespace {

/// Rows of the left factor that are packed at once, and their depth: with the right factor's block they stay in the
/// second-level cache.
constexpr int64_t kRows = 128, kDepth = 512;

/// Returns a matrix as a factor. Its rows are the product's rows or columns and its columns the depth; `transposed`
/// swaps the two.
TileSource factor(const Tensor& matrix, bool transposed) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  TileSource source{.count = transposed ? columns : rows,
                    .depth = transposed ? rows : columns,
                    .stride = columns,
                    .across = transposed};
  if (matrix.dtype() == DType::f32)
    source.f32 = matrix.data<float>();
  else
    source.bf16 = matrix.data<Bfloat16>();
  return source;
}

Tensor packed_memory(Device& device, int64_t elements) {
  return Tensor::empty(device, {elements}, {.dtype = DType::bf16, .purpose = MemoryPurpose::workspace});
}

/// The right factor, packed by all threads.
class RightFactor {
 public:
  RightFactor(Device& device, const TileSource& source, int pieces) : source_(source), pieces_(pieces) {
    const TileKernels& kernels = *tile_kernels();
    const int64_t columns = (source.count + kernels.block - 1) / kernels.block;
    memory_ = packed_memory(device, at(depths() - 1) + packed(source.count, deep(depths() - 1)));
    parallel_for(device, columns * depths(), [&](int64_t i) {
      const int64_t depth = i / columns, column = i % columns * kernels.block;
      const int64_t count = std::min(kernels.block, source.count - column);
      kernels.pack_right(source.part(column, count, depth * kDepth, deep(depth)), pieces,
                         memory_.data<Bfloat16>() + at(depth) + packed(column, deep(depth)));
    });
  }

  int64_t depths() const { return (source_.depth + kDepth - 1) / kDepth; }
  int64_t deep(int64_t depth) const { return std::min(kDepth, source_.depth - depth * kDepth); }
  const Bfloat16* of(int64_t depth) const { return memory_.data<Bfloat16>() + at(depth); }

 private:
  int64_t packed(int64_t count, int64_t deep) const { return tile_kernels()->packed(count, deep, pieces_); }
  int64_t at(int64_t depth) const { return depth * packed(source_.count, kDepth); }

  TileSource source_;
  int pieces_;
  Tensor memory_;
};

/// The options of a product's result, see TileProduct.
struct Target {
  const float* bias = nullptr;
  bool relu = false;
  bool accumulate = false;
};

void multiply(const TileSource& left, const TileSource& right, const Tensor& y, const Target& target) {
  const TileKernels& kernels = *tile_kernels();
  Device& device = y.device();
  const int pieces = left.f32 != nullptr && right.f32 != nullptr ? 3 : 1;
  const RightFactor panels(device, right, pieces);
  const int64_t room = kernels.packed(kRows, std::min(kDepth, left.depth), pieces);
  const Tensor packed = packed_memory(device, room * device.threads());
  const bool rounded = y.dtype() != DType::f32;
  parallel_parts(device, left.count, kernels.block, [&](int64_t part, int64_t first, int64_t last) {
    Bfloat16* own = packed.data<Bfloat16>() + part * room;
    for (int64_t row = first; row < last; row += kRows)
      for (int64_t depth = 0; depth < panels.depths(); ++depth) {
        const int64_t rows = std::min(kRows, last - row), deep = panels.deep(depth), at = row * right.count;
        const bool ends = depth + 1 == panels.depths();
        kernels.pack_left(left.part(row, rows, depth * kDepth, deep), pieces, own);
        kernels.multiply({.rows = rows,
                          .columns = right.count,
                          .depth = deep,
                          .pieces = pieces,
                          .left = own,
                          .right = panels.of(depth),
                          .bias = ends ? target.bias : nullptr,
                          .relu = ends && target.relu,
                          .accumulate = target.accumulate || depth > 0,
                          .y = rounded ? nullptr : y.data<float>() + at,
                          .rounded = rounded ? y.data<Bfloat16>() + at : nullptr,
                          .y_stride = right.count});
      }
  });
}

/// Like multiply, for y of any type. A product with more than one block of depth is added up in f32 before it is
/// rounded.
void multiply_into(const TileSource& left, const TileSource& right, const Tensor& y, const Target& target) {
  const Tensor sums = left.depth > kDepth ? f32_for(y) : y;
  multiply(left, right, sums, target);
  if (left.depth > kDepth) round_into(sums, y);
}

}  // namespace

bool multiplies_by_tiles(DType left, DType right) {
  switch (cpu_bf16_unit()) {
    case Bf16Unit::amx: return true;
    case Bf16Unit::avx512: return left == DType::bf16 || right == DType::bf16;
    case Bf16Unit::none: break;
  }
  return false;
}

void linear_forward_by_tiles(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu, const Tensor& y) {
  const Tensor added = bias.defined() ? as_f32(bias, bias.layout()) : bias;
  multiply_into(factor(x, false), factor(weight, false), y,
                {.bias = added.defined() ? added.data<float>() : nullptr, .relu = relu});
}

void linear_backward_data_by_tiles(const Tensor& weight, const Tensor& output_gradient, const Tensor& gradient) {
  multiply_into(factor(output_gradient, false), factor(weight, true), gradient, {});
}

void linear_backward_weight_by_tiles(const Tensor& x, const Tensor& output_gradient, const Tensor& gradient,
                                     bool accumulate) {
  multiply_into(factor(output_gradient, true), factor(x, true), gradient, {.accumulate = accumulate});
}

}  // namespace dptrain::ops::cpu
