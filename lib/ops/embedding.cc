#include "ops/embedding.h"

#include <vector>

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/embedding_cpu.h"
#include "ops/embedding_cuda.h"

namespace dptrain::ops {
namespace {

Shape output_shape(const Tensor& ids, int64_t width) {
  std::vector<int64_t> dimensions(ids.shape().dimensions().begin(), ids.shape().dimensions().end());
  dimensions.push_back(width);
  return Shape(dimensions);
}

}  // namespace

Tensor embedding_forward(const Tensor& table, const Tensor& ids) {
  reads_rows(table, ids.elements());
  Device& device = common_device("embedding", {&table, &ids});
  DPTRAIN_CHECK(table.shape().rank() == 2 && ids.dtype() == DType::i32, "embedding: table {} and ids {}", table.text(),
                ids.text());
  const Tensor y = Tensor::empty(device, output_shape(ids, table.shape()[1]), {.dtype = table.dtype()});
  if (y.elements() == 0) return y;
  on_device(
      "embedding", device, [&] { cpu::embedding_forward(table, ids, y); },
      [&] { cuda::embedding_forward(table, ids, y); });
  return y;
}

void embedding_backward(const Tensor& ids, const Tensor& output_gradient, const Tensor& table_gradient,
                        const EmbeddingBackwardOptions& options) {
  Device& device = common_device("embedding backward", {&ids, &output_gradient, &table_gradient});
  DPTRAIN_CHECK(table_gradient.shape().rank() == 2, "embedding backward: table {}", table_gradient.text());
  require_shape("embedding backward", "output gradient", output_gradient.shape(),
                output_shape(ids, table_gradient.shape()[1]));
  if (!options.accumulate) table_gradient.fill_zero();
  if (output_gradient.elements() == 0) return;
  on_device(
      "embedding backward", device, [&] { cpu::add_rows(ids, output_gradient, table_gradient, options.untrained); },
      [&] { cuda::add_rows(ids, output_gradient, table_gradient, options.untrained); });
}

}  // namespace dptrain::ops
