#pragma once

#include <cstdint>
#include <filesystem>

#include "data/dataset_options.h"
#include "data/dataset_registry.h"

namespace dptrain {

/// Whether the folder has any of the six files of CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin and
/// test_batch.bin, each alone or with .gz.
bool has_cifar10_files(const std::filesystem::path& folder);

/// Opens the six files: the five data batches, one after the other, are the training part. A file is one or more
/// records of 3073 bytes: the label, 0 to 9, then the image [3, 32, 32], red, green, blue
/// (https://www.cs.toronto.edu/~kriz/cifar.html). Where a name is there with and without .gz, the plain file is read; a
/// gzip file may hold 100,000 records. A part that has one is read at once; else its files are read through where no
/// digest of them was kept (see kept_digest.h), and then as samples are asked for.
///
/// Throws 66 where one is missing, 65, naming file and record (from 0), for a record that is cut off, a label over 9,
/// or no record at all.
ImageDatasets read_cifar10_files(const std::filesystem::path& folder, const DatasetOptions& options);

/// `cifar10`: `dir`, or cifar-10-batches-bin or cifar10 among the project's own data sets where it holds the files.
DatasetSpec read_cifar10(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
