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

/// Makes images that can be learned. Each class has a smooth pattern; each sample is its class's pattern moved by up to
/// two pixels, with its own contrast, plus noise. Sample i has label i % classes. Draws are keyed by (seed, split,
/// sample): a sample has the same bytes on every machine, whatever the number of samples.
LabelledBytes make_synthetic(const SyntheticOptions& options);

/// Reads the data set `synthetic`: {samples, test_samples}, and for images {classes, shape}. It is text if the request
/// asks for that, see synthetic_text.h.
DatasetSpec read_synthetic(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
