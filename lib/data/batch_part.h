#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "ops/augmented_image.h"
#include "tensor/tensor.h"

namespace dptrain {

/// How images are changed before a model learns from them; by default they aren't.
struct PartAugmentation {
  ops::Augmentations augmentations = {};
  int64_t epoch = 0;  ///< from 1
};

/// The samples of one part of a batch: those of one device.
struct BatchPart {
  /// f32 [n, C, H, W], plain, on the part's CPU worker. Undefined for a GPU, which decodes its images itself from
  /// `dataset` (see images_on_device.h).
  Tensor images;
  const ImageDataset* dataset = nullptr;
  std::vector<int32_t> labels;  ///< n
  /// n: their numbers in the data set, which random draws are keyed by.
  std::vector<int64_t> sample_ids;
  ops::Augmentations augmentations = {};  ///< of its images; a GPU applies them as it decodes
  int64_t samples() const { return static_cast<int64_t>(labels.size()); }
};

/// Puts these samples, in this order, into memory of `device`; there may be none. Complete when it returns; for a GPU
/// only their numbers and labels are put together. `dataset` must outlive the part.
/// Throws 71 where the device has no memory left.
BatchPart load_part(const ImageDataset& dataset, std::span<const int64_t> samples, Device& device,
                    const PartAugmentation& augmentation = {});

/// Samples begin to end - 1 in the order of the data set: what an evaluation reads.
BatchPart load_block(const ImageDataset& dataset, int64_t begin, int64_t end, Device& device);

}  // namespace dptrain
