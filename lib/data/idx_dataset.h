#pragma once

#include <filesystem>
#include <string>

#include "data/dataset.h"
#include "data/dataset_options.h"

namespace dptrain {

/// Whether the folder has any of the four files of a data set in MNIST's format: {train,t10k}-images-idx3-ubyte and
/// {train,t10k}-labels-idx1-ubyte, each alone or with .gz.
bool has_idx_files(const std::filesystem::path& folder);

/// Opens the four files: grey images with labels below `classes`, at most 256. If a name exists with and without .gz,
/// the plain file is read. Labels and gzip files are read at once; images of a plain file are read as they are asked
/// for. Throws 66 if a file is missing. Throws 65 for bad content: different counts of images and labels, a label out
/// of range, or test images of another size than the training images.
ImageDatasets read_idx_dataset(const std::filesystem::path& folder, const DatasetOptions& options,
                               int64_t classes = 10);

}  // namespace dptrain
