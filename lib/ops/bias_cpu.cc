#include "ops/bias_cpu.h"

#include <algorithm>

#include "device/parallel_for.h"
#include "ops/f32_pieces.h"
#include "ops/linear_kernels.h"

namespace dptrain::ops::cpu {

void bias_gradient(const Tensor& gradient, const Tensor& bias, bool accumulate) {
  if (!gradient.device().computes()) return;
  // Columns that are summed at once, and bf16 rows that are widened at once.
  constexpr int64_t kColumns = 128, kRows = kPieceElements / kColumns;
  const int64_t width = bias.elements(), rows = gradient.elements() / width;
  parallel_for(gradient.device(), (width + kColumns - 1) / kColumns, [&](int64_t block) {
    const int64_t first = block * kColumns, columns = std::min(kColumns, width - first);
    float room[kPieceElements];
    double sums[kColumns] = {};
    for (int64_t row = 0; row < rows; row += kRows) {
      const StorageRows some{
          .at = row * width + first, .count = std::min(kRows, rows - row), .width = columns, .stride = width};
      Pieces pieces(room);
      linear_kernels().add_column_sums(pieces.read(gradient, some), some.count, Pieces::stride_of(gradient, some),
                                       columns, sums);
    }
    float* to = bias.data<float>() + first;
    for (int64_t c = 0; c < columns; ++c) to[c] = static_cast<float>(sums[c] + (accumulate ? to[c] : 0.f));
  });
}

}  // namespace dptrain::ops::cpu
