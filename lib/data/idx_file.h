#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "data/file_identity.h"

namespace dptrain {

/// What the header of an IDX file of grey images says.
struct IdxSizes {
  int64_t count = 0;
  int64_t height = 0;
  int64_t width = 0;
};

/// Grey images as an IDX file holds them, row by row: pixels of image i begin at i * height * width.
struct IdxImages : IdxSizes {
  std::vector<uint8_t> pixels;
  FileIdentity file;  ///< as it was opened
};

/// Where the pixels of a plain IDX file of images begin.
inline constexpr int64_t kIdxPixelsBegin = 16;

/// Reads an IDX file (http://yann.lecun.com/exdb/mnist/), plain or gzip: images are magic number 0x00000803, count,
/// rows, columns (big-endian, 32 bits each) and a byte a pixel; labels are 0x00000801, count and a byte a label.
///
/// Throws 66 where the file is missing, and 65, naming file, field, what was expected and what is there, unless the
/// file is exactly what its header says. Takes no more memory than the header implies, and refuses a header that
/// implies more than the file can hold before taking any.
IdxImages read_idx_images(const std::filesystem::path& path);
/// The same of a plain file, without reading its pixels; nothing where the file is gzip.
std::optional<IdxSizes> read_plain_idx_sizes(const std::filesystem::path& path);
std::vector<uint8_t> read_idx_labels(const std::filesystem::path& path);

}  // namespace dptrain
