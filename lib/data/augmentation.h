#pragma once

#include "config/config_reader.h"
#include "data/dataset_registry.h"
#include "ops/augmented_image.h"

namespace dptrain {

/// Reads the key `augment`: what happens to the training images of `dataset`, in order; nothing by default. It is a
/// mistake to name one augmentation twice, or any for a data set without images.
ops::Augmentations read_augmentations(ConfigReader& config, const DatasetSpec& dataset, uint64_t seed);

}  // namespace dptrain
