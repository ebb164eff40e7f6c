#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "data/idx_file.h"
#include "data/pictures.h"

namespace dptrain {

/// Images without labels: those of an IDX file, of a PNG or JPEG file, or of all such pictures in a folder and its
/// subfolders, in the order of their paths. A picture is recognized by its first bytes or by the ending of its name.
class ImageFiles {
 public:
  /// Lists the images, and reads those of an IDX file. Throws 66 if the path doesn't exist or is a folder without
  /// pictures. Throws 65 for an IDX file, like `read_idx_images`.
  explicit ImageFiles(const std::filesystem::path& path);

  int64_t count() const { return idx_ ? idx_->count : static_cast<int64_t>(files_.size()); }
  /// The file that image `index` is in.
  const std::filesystem::path& file_of(int64_t index) const { return files_[idx_ ? 0 : static_cast<size_t>(index)]; }
  /// Writes image `index` as bytes in this form to `out`. Throws like `copy_as` and `read_picture`.
  void read(int64_t index, const PictureForm& form, std::span<uint8_t> out) const;

 private:
  std::vector<std::filesystem::path> files_;
  std::optional<IdxImages> idx_;
};

}  // namespace dptrain
