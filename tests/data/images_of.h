#pragma once

#include "data/dataset.h"

namespace dptrain::testing {

/// The parts of a data set that is known to contain images.
inline ImageDatasets images_of(const Datasets& datasets) {
  return {.train = std::dynamic_pointer_cast<const ImageDataset>(datasets.train),
          .test = std::dynamic_pointer_cast<const ImageDataset>(datasets.test)};
}

}  // namespace dptrain::testing
