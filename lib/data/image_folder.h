#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/dataset_options.h"
#include "data/dataset_registry.h"

namespace dptrain {

/// A folder of pictures and how to read them.
struct ImageFolder {
  std::filesystem::path dir;
  std::string test_folder = "test";
  /// The size to which pictures of any size are scaled (picture_scaling.h); empty: all must have the size of the first
  /// one.
  std::optional<int64_t> size = {};
  int64_t channels = 3;  ///< 1 or 3
};

/// Reads a folder that has a folder for each part, and in it a folder for each class with PNG or JPEG files:
/// train/cat/1.png. Classes are numbered from 0 in the order of their names in `train`; the test part, `test_folder`,
/// may have fewer classes. The images of a part are ordered by turns: the first image of each class, then the second of
/// each class that has two, and so on. Therefore the first samples cover all classes.
///
/// All images are decoded into memory, as bytes [samples, channels, H, W]. Throws 66 if a folder or the files of a
/// class are missing. Throws 65, naming the file, for an image that can't be read, has another size or has more
/// channels, and for a class that `train` doesn't have. Throws 71 if the images need more than the free memory.
ImageDatasets read_image_folder(const ImageFolder& folder, const DatasetOptions& options);

/// `image_folder`: `dir`, `test_folder`, `size` and `channels`.
DatasetSpec read_image_folder_options(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
