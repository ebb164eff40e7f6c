#pragma once

#include <cstdint>

#include "data/picture.h"

namespace dptrain {

/// The picture with its shorter side scaled to `size` pixels, of that the middle, [C, size, size]: to the byte what
/// torchvision.transforms.Resize(size) and CenterCrop(size) make of a Pillow image. Each pixel is a mean of those that
/// it covers, weighted by a triangle (Pillow's BILINEAR), across, then down; Pillow 13 goes down first where a picture
/// is over twice as tall as wide, and rounds otherwise in between.
Picture scaled_to_square(const Picture& picture, int64_t size);

}  // namespace dptrain
