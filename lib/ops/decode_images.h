#pragma once

#include <span>

#include "ops/augmented_image.h"
#include "tensor/tensor.h"

namespace dptrain::ops {

struct DecodeOptions {
  DType dtype = DType::f32;  ///< of the images
  Augmentations augmentations = {};
  // Keys of the augmentations' random draws; undefined without augmentations. They are on the images' device and are
  // read when the images are decoded, so that a recorded step can run again with other values.
  Tensor epoch = {};       ///< i32 [1]
  Tensor sample_ids = {};  ///< i64 [N]
};

/// Makes a batch of images from a data set in the device's memory: image[n, c, i] = table[c, bytes[ids[n], c, i]]. With
/// augmentations, pixel i comes from another pixel of the image, a mean of four, or byte 0; see AugmentedImage. bytes:
/// u8 [samples, C, H, W]; table: f32 [C, 256], the normalized value of each byte; ids: i64 [N], or undefined for all of
/// `bytes` in order. Returns [N, C, H, W], plain on a CPU worker and nhwc on a GPU.
Tensor decode_images(const Tensor& bytes, const Tensor& table, const Tensor& ids, const DecodeOptions& options = {});

/// Decodes one augmented image on the host; the result matches decode_images bit for bit. bytes: [C, H, W]; table:
/// [C, 256]; out: [C, H, W].
void decode_augmented_image(std::span<const uint8_t> bytes, std::span<const float> table, const AugmentedImage& image,
                            std::span<float> out);

/// Returns i32 [N]: values[ids[n]]. values: i32 [samples].
Tensor gather_labels(const Tensor& values, const Tensor& ids);

}  // namespace dptrain::ops
