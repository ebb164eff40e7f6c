#pragma once

#include <cstdint>
#include <filesystem>

#include "data/dataset_options.h"
#include "data/dataset_registry.h"

namespace dptrain {

/// Whether the folder has any of the six files of CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin and
/// test_batch.bin, each alone or with .gz.
bool has_cifar10_files(const std::filesystem::path& folder);

/// Opens the six files. The five data batches, one after the other, are the training part. A file is one or more
/// records of 3073 bytes: the label, 0 to 9, then the image [3, 32, 32], red, green, blue
/// (https://www.cs.toronto.edu/~kriz/cifar.html). If a name exists with and without .gz, the plain file is read. A gzip
/// file may hold 100,000 records. A part with a gzip file is read into memory at once. The files of another part are
/// read through only if no digest of them was kept (see kept_digest.h), and are then read as samples are asked for.
///
/// Throws 66 if a file is missing. Throws 65, naming file and record (from 0), for a record that is cut off, a label
/// over 9, or a file without records.
ImageDatasets read_cifar10_files(const std::filesystem::path& folder, const DatasetOptions& options);

/// Reads the data set `cifar10`: `dir`; by default cifar-10-batches-bin or cifar10 among the project's own data sets,
/// whichever has the files.
DatasetSpec read_cifar10(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
