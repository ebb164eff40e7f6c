#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/dataset_options.h"
#include "data/dataset_registry.h"

namespace dptrain {

/// Reads a folder with a folder for each part, in which a folder for each class has its images as PNG files:
/// train/cat/1.png. Classes are numbered from 0 in the order of their names in `train`; the other part, in
/// `test_folder`, may have fewer. Images of a part come in turn, the first of each class, then the second of each that
/// has two, so that the first so many are of all classes.
///
/// All are decoded into memory, as bytes [samples, channels, H, W], `channels` 1 or 3, of the size that the first one
/// has. Throws 66 where a folder or a class's files are missing, 65, naming the file, for an image that can't be read,
/// of another size or of more channels, and for a class that `train` doesn't have, 71 for more than the
/// memory that is free.
ImageDatasets read_image_folder(const std::filesystem::path& dir, const std::string& test_folder, int64_t channels,
                                const DatasetOptions& options);

/// `image_folder`: `dir`, `test_folder` and `channels`.
DatasetSpec read_image_folder_options(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
