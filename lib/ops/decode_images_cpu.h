#pragma once

#include "ops/decode_images.h"

namespace dptrain::ops::cpu {

Tensor decode_images(const Tensor& bytes, const Tensor& table, const Tensor& ids, const DecodeOptions& options);
Tensor gather_labels(const Tensor& values, const Tensor& ids);

}  // namespace dptrain::ops::cpu
