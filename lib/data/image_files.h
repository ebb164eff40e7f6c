#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "data/idx_file.h"
#include "tensor/shape.h"

namespace dptrain {

/// Images without labels: those of an IDX file, of a PNG file, or of the PNG files in a folder, in the order of their
/// names. The first two are told by their bytes, or by a name that ends in .png.
class ImageFiles {
 public:
  /// Lists the images, and reads those of an IDX file. Throws 66 where there is nothing, or a folder without PNG
  /// files; 65 for an IDX file as `read_idx_images` does.
  explicit ImageFiles(const std::filesystem::path& path);

  int64_t count() const { return idx_ ? idx_->count : static_cast<int64_t>(files_.size()); }
  /// The file that image `index` is in.
  const std::filesystem::path& file_of(int64_t index) const { return files_[idx_ ? 0 : static_cast<size_t>(index)]; }
  /// Writes image `index` as bytes of `shape`, [C, H, W], to `out`. A gray image becomes one of three channels by
  /// repeating. Throws 65, naming the file, both shapes and what to do, for an image of another shape; and as
  /// `read_png` does.
  void read(int64_t index, const Shape& shape, std::span<uint8_t> out) const;

 private:
  std::vector<std::filesystem::path> files_;
  std::optional<IdxImages> idx_;
};

}  // namespace dptrain
