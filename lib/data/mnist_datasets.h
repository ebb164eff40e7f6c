#pragma once

#include <cstdint>

#include "data/dataset_registry.h"

namespace dptrain {

/// `mnist`: `dir`, or mnist-10k among the project's own data sets.
DatasetSpec read_mnist(ConfigReader& config, const DatasetRequest& request);

/// `fashion_mnist`: `dir`, or fashion_mnist among the project's own data sets where it holds the files, or the folder
/// of Debian's package dataset-fashion-mnist.
DatasetSpec read_fashion_mnist(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
