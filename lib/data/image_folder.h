#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/dataset_options.h"
#include "data/dataset_registry.h"

namespace dptrain {

/// Pictures in folders.
struct ImageFolder {
  std::filesystem::path dir;
  std::string test_folder = "test";
  /// What pictures of any size are scaled to (picture_scaling.h); nothing: all have the size of the first one.
  std::optional<int64_t> size = {};
  int64_t channels = 3;  ///< 1 or 3
};

/// Reads a folder with a folder for each part, in which a folder for each class has its images as PNG or JPEG files:
/// train/cat/1.png. Classes are numbered from 0 in the order of their names in `train`; the other part, in
/// `test_folder`, may have fewer. Images of a part come in turn, the first of each class, then the second of each that
/// has two, so that the first so many are of all classes.
///
/// All are decoded into memory, as bytes [samples, channels, H, W]. Throws 66 where a folder or a class's files are
/// missing, 65, naming the file, for an image that can't be read, of another size or of more channels, and for a class
/// that `train` doesn't have, 71 for more than the memory that is free.
ImageDatasets read_image_folder(const ImageFolder& folder, const DatasetOptions& options);

/// `image_folder`: `dir`, `test_folder`, `size` and `channels`.
DatasetSpec read_image_folder_options(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
