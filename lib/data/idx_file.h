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
  FileIdentity file;  ///< its identity when it was opened
};

/// The offset of the pixels in a plain IDX file of images.
inline constexpr int64_t kIdxPixelsBegin = 16;

/// Reads an IDX file (http://yann.lecun.com/exdb/mnist/), plain or gzip. An image file has the magic number 0x00000803,
/// count, rows, columns (big-endian, 32 bits each) and a byte per pixel; a label file has 0x00000801, count and a byte
/// per label.
///
/// Throws 66 if the file is missing. Throws 65, naming file, field, and what was expected and found, unless the file is
/// exactly what its header says. Takes no more memory than the header implies. A header that implies more than the file
/// can hold is refused before any memory is taken.
IdxImages read_idx_images(const std::filesystem::path& path);
/// Reads the header of a plain file and checks its length, without reading pixels; empty if the file is gzip.
std::optional<IdxSizes> read_plain_idx_sizes(const std::filesystem::path& path);
std::vector<uint8_t> read_idx_labels(const std::filesystem::path& path);

}  // namespace dptrain
