#pragma once

#include <cstdint>

#include "data/dataset_registry.h"

namespace dptrain {

/// Reads the data set `mnist`: `dir`; by default mnist-10k among the project's own data sets.
DatasetSpec read_mnist(ConfigReader& config, const DatasetRequest& request);

/// Reads the data set `fashion_mnist`: `dir`; by default fashion_mnist among the project's own data sets if it has the
/// files, or else the folder of Debian's package dataset-fashion-mnist.
DatasetSpec read_fashion_mnist(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
