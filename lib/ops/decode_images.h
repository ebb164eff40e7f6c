#pragma once

#include <span>

#include "ops/augmented_image.h"
#include "tensor/tensor.h"

namespace dptrain::ops {

struct DecodeOptions {
  DType dtype = DType::f32;  ///< of the images
  Augmentations augmentations = {};
  // What augmentations are keyed by, undefined without any; on the images' device, where they are read when the images
  // are decoded: a recorded step is run again with others.
  Tensor epoch = {};       ///< i32 [1]
  Tensor sample_ids = {};  ///< i64 [N]
};

/// image[n, c, i] = table[c, bytes[ids[n], c, i]]: the images of a batch out of a data set that lies on the device.
/// Augmented, pixel i of an image is another one of it, a mean of four, or byte 0: see AugmentedImage.
/// bytes: u8 [samples, C, H, W]; table: f32 [C, 256], the normalized values of a byte; ids: i64 [N], or undefined where
/// all of `bytes` are wanted in order. Returns [N, C, H, W]: plain on a CPU worker, nhwc on a GPU.
Tensor decode_images(const Tensor& bytes, const Tensor& table, const Tensor& ids, const DecodeOptions& options = {});

/// One augmented image on the host, in the bits that decode_images has. bytes: [C, H, W]; table: [C, 256]; out:
/// [C, H, W].
void decode_augmented_image(std::span<const uint8_t> bytes, std::span<const float> table, const AugmentedImage& image,
                            std::span<float> out);

/// i32 [N]: values[ids[n]], of i32 [samples].
Tensor gather_labels(const Tensor& values, const Tensor& ids);

}  // namespace dptrain::ops
