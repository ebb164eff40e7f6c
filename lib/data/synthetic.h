#pragma once

#include <cstdint>

#include "data/byte_images.h"
#include "data/dataset_registry.h"

namespace dptrain {

struct SyntheticOptions {
  uint64_t seed = 0;
  int64_t samples = 1000;
  int64_t classes = 10;
  Shape image_shape = {1, 28, 28};
  DatasetSplit split = DatasetSplit::train;
};

/// Images that can be learned: each class has a smooth pattern, and each sample is its class's pattern moved by up to
/// two pixels, with a contrast of its own, under noise. Sample i has label i % classes. Keyed by (seed, split, sample):
/// a sample is the same bytes on every machine, however many are made.
LabelledBytes make_synthetic(const SyntheticOptions& options);

/// The data set `synthetic`: {samples, test_samples}, and of images {classes, shape}; text where that is asked for, see
/// synthetic_text.h.
DatasetSpec read_synthetic(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
