#include "data/image_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "data/jpeg_file.h"
#include "data/picture_files.h"
#include "data/pictures.h"

namespace dptrain {
namespace {

namespace fs = std::filesystem;

enum class FileKind { picture, idx, other };

/// Recognizes a file by its name and its first bytes. A file that is too short or can't be read is left to the IDX
/// reader, which reports it.
FileKind kind_of(const fs::path& path) {
  constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n", kGzip = "\x1f\x8b", kIdx("\0\0", 2);
  if (has_picture_name(path)) return FileKind::picture;
  std::array<char, kPng.size()> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  const std::string_view beginning(bytes.data(), static_cast<size_t>(file.gcount()));
  if (beginning == kPng || beginning.starts_with(kJpegBeginning)) return FileKind::picture;
  const bool idx = beginning.size() < kIdx.size() || beginning.starts_with(kIdx) || beginning.starts_with(kGzip);
  return idx ? FileKind::idx : FileKind::other;
}

}  // namespace

ImageFiles::ImageFiles(const fs::path& path) {
  std::error_code error;
  const auto type = fs::status(path, error).type();
  if (type == fs::file_type::not_found)
    throw Error(ExitCode::missing_file, fmt::format("{}: no such file or folder", path.string()));
  if (type == fs::file_type::directory) {
    files_ = picture_files_below(path);
    return;
  }
  // Reading a pipe without a writer would never end.
  if (!error && type != fs::file_type::regular)
    throw Error(ExitCode::bad_data, Mistake{.where = path.string(),
                                            .expected = "expected a regular file or a folder",
                                            .got = kind_of_what_is_no_file(path),
                                            .advice = "write the images to a file"});
  files_ = {path};
  const FileKind kind = kind_of(path);
  if (kind == FileKind::other)
    throw Error(ExitCode::bad_data,
                Mistake{.where = path.string(),
                        .expected = "expected a PNG or JPEG file, or an IDX file of images, plain or gzip",
                        .got = "neither",
                        .advice = "convert the image to PNG"});
  if (kind == FileKind::idx) idx_ = read_idx_images(path);
}

void ImageFiles::read(int64_t index, const PictureForm& form, std::span<uint8_t> out) const {
  DPTRAIN_CHECK(index >= 0 && index < count(), "image {} of {}", index, count());
  if (!idx_) return copy_as(form, read_picture(file_of(index)), file_of(index), out);
  Picture picture{.shape = {1, idx_->height, idx_->width}};
  const auto begin = idx_->pixels.begin() + index * picture.shape.elements();
  picture.pixels.assign(begin, begin + picture.shape.elements());
  copy_as(form, picture, file_of(index), out);
}

}  // namespace dptrain
