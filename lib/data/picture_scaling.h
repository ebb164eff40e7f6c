#pragma once

#include <cstdint>

#include "data/picture.h"

namespace dptrain {

/// Scales the shorter side of a picture to `size` pixels and returns the middle square, [C, size, size]. The bytes
/// equal those of torchvision.transforms.Resize(size) and CenterCrop(size) on a Pillow image. Each pixel is a mean of
/// the pixels that it covers, weighted by a triangle (Pillow's BILINEAR), first across, then down. Pillow 13 goes down
/// first for a picture that is over twice as tall as wide, and then rounds differently in between.
Picture scaled_to_square(const Picture& picture, int64_t size);

}  // namespace dptrain
