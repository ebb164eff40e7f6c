#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// image[n, c, i] = table[c, bytes[ids[n], c, i]]: the images of a batch out of a data set that lies on the device.
/// bytes: u8 [samples, C, H, W]; table: f32 [C, 256], the normalized values of a byte; ids: i64 [N], or undefined where
/// all of `bytes` are wanted in order. Returns [N, C, H, W] of type `dtype`: plain on a CPU worker, nhwc on a GPU.
Tensor decode_images(const Tensor& bytes, const Tensor& table, const Tensor& ids, DType dtype = DType::f32);

/// i32 [N]: values[ids[n]], of i32 [samples].
Tensor gather_labels(const Tensor& values, const Tensor& ids);

}  // namespace dptrain::ops
