#include "ops/decode_images.h"

#include "base/check.h"
#include "ops/decode_images_cpu.h"
#include "ops/decode_images_cuda.h"
#include "ops/dispatch.h"

namespace dptrain::ops {

Tensor decode_images(const Tensor& bytes, const Tensor& table, const Tensor& ids, DType dtype) {
  Device& device = common_device("decode_images", {&bytes, &table, &ids});
  DPTRAIN_CHECK(bytes.shape().rank() == 4, "decode_images: {}", bytes.text());
  require_shape("decode_images", "table", table.shape(), {bytes.shape()[1], 256});
  return on_device(
      "decode_images", device, [&] { return cpu::decode_images(bytes, table, ids, dtype); },
      [&] { return cuda::decode_images(bytes, table, ids, dtype); });
}

Tensor gather_labels(const Tensor& values, const Tensor& ids) {
  Device& device = common_device("gather_labels", {&values, &ids});
  return on_device(
      "gather_labels", device, [&] { return cpu::gather_labels(values, ids); },
      [&] { return cuda::gather_labels(values, ids); });
}

}  // namespace dptrain::ops
