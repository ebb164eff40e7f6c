#include "ops/linear_product_cpu.h"

#include <algorithm>
#include <limits>

#include "device/parallel_for.h"
#include "ops/linear_kernels.h"

namespace dptrain::ops::cpu {
namespace {

int64_t up_to_multiple(int64_t count, int64_t of) { return (count + of - 1) / of * of; }

/// Depths that are multiplied at once: a panel of this depth stays in the first-level cache.
constexpr int64_t kDepth = 256;

/// Rows that a panel is multiplied by at once: with kDepth numbers each they stay in the second-level cache.
int64_t rows_at_once(const ProductFactor& left) {
  // Rows that are whole pages apart share a quarter of the cache's sets, or less.
  constexpr int64_t kPage = 4096 / sizeof(float);
  return !left.across && left.stride % kPage == 0 ? 252 : 768;
}

/// How threads divide a product. Each has a part of the rows and of the columns, and packs its parts of both factors
/// itself, into its own caches.
class Grid {
 public:
  Grid(int64_t threads, int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {
    // Packing a number takes about as long as this many products.
    constexpr int64_t kPacking = 10;
    int64_t best = std::numeric_limits<int64_t>::max();
    for (int64_t across = 1; across <= threads; ++across) {
      const int64_t down = threads / across;
      const int64_t cost = (most_rows(down) + kPacking) * (most_columns(across) + kPacking);
      if (cost >= best) continue;
      best = cost;
      down_ = down;
      across_ = across;
    }
  }

  struct Part {
    int64_t row, end_row, column, end_column;
  };
  int64_t parts() const { return down_ * across_; }
  Part part(int64_t number) const {
    const int64_t i = number / across_, j = number % across_;
    return {.row = std::min(rows_, i * most_rows(down_)),
            .end_row = std::min(rows_, (i + 1) * most_rows(down_)),
            .column = std::min(columns_, j * most_columns(across_)),
            .end_column = std::min(columns_, (j + 1) * most_columns(across_))};
  }
  /// The most rows in any part.
  int64_t most_rows() const { return most_rows(down_); }

 private:
  int64_t most_rows(int64_t parts) const { return (rows_ + parts - 1) / parts; }
  int64_t most_columns(int64_t parts) const {
    return up_to_multiple((columns_ + parts - 1) / parts, linear_kernels().panel_columns);
  }

  int64_t rows_, columns_, down_ = 1, across_ = 1;
};

/// Computes one thread's part of a product. `scratch` has room for a panel, and if the left factor is `across`, for
/// tiles of its rows by kDepth.
void multiply_part(const ProductFactor& left, const ProductFactor& right, const Tensor& y,
                   const ProductOptions& options, const Grid::Part& part, float* scratch) {
  const LinearKernels& kernels = linear_kernels();
  const int64_t depth = right.depth, columns_of_y = right.count;
  const int64_t most_rows = rows_at_once(left);
  float *panel = scratch, *tiles = scratch + kDepth * kernels.panel_columns;
  const auto pack = right.across ? kernels.pack : kernels.pack_transpose;
  for (int64_t row = part.row; row < part.end_row; row += most_rows) {
    const int64_t rows = std::min(most_rows, part.end_row - row);
    for (int64_t k = 0; k < depth; k += kDepth) {
      const int64_t deep = std::min(kDepth, depth - k);
      const float* x = left.at(row, k);
      if (left.across) {
        kernels.pack_tiles(x, left.stride, deep, rows, tiles);
        if (options.left_sums != nullptr && part.column == 0)
          kernels.add_column_sums(x, deep, left.stride, rows, options.left_sums + row);
      }
      for (int64_t column = part.column; column < part.end_column; column += kernels.panel_columns) {
        const int64_t columns = std::min(kernels.panel_columns, part.end_column - column);
        pack(right.at(column, k), right.stride, deep, columns, panel);
        kernels.multiply({.rows = rows,
                          .depth = deep,
                          .columns = columns,
                          .x = left.across ? tiles : x,
                          .x_stride = left.across ? 0 : left.stride,
                          .panel = panel,
                          .bias = options.bias != nullptr && k == 0 ? options.bias + column : nullptr,
                          .goes_on = !options.in_blocks && k > 0,
                          .accumulate = options.in_blocks && (options.accumulate || k > 0),
                          .relu = options.relu && k + deep == depth,
                          .y = y.data<float>() + row * columns_of_y + column,
                          .y_stride = columns_of_y});
      }
    }
  }
}

}  // namespace

void multiply(const ProductFactor& left, const ProductFactor& right, const Tensor& y, const ProductOptions& options) {
  const LinearKernels& kernels = linear_kernels();
  Device& device = y.device();
  const Grid grid(device.threads(), left.count, right.count);
  const int64_t rows_of_tiles =
      left.across ? up_to_multiple(std::min(rows_at_once(left), grid.most_rows()), kernels.tile_rows) : 0;
  const int64_t room = kDepth * (kernels.panel_columns + rows_of_tiles);
  const Tensor scratch = Tensor::empty(device, {grid.parts() * room}, {.purpose = MemoryPurpose::workspace});
  parallel_for(device, grid.parts(), [&](int64_t number) {
    multiply_part(left, right, y, options, grid.part(number), scratch.data<float>() + number * room);
  });
}

}  // namespace dptrain::ops::cpu
