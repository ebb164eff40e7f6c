#include "data/png_file.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "data/plain_or_gzip_file.h"

namespace dptrain {
namespace {

/// Twice the bytes of the largest image with four channels of 16 bits, uncompressed.
constexpr size_t kMostFileBytes = size_t{2} * 8 * kMostPicturePixels * kMostPicturePixels;
constexpr size_t kSignatureBytes = 8;

/// Runs libpng on one file. libpng reports an error by a long jump, which must not pass over an object with a
/// destructor: every call that can fail is in a `guarded` call that holds nothing else.
class PngReader {
 public:
  explicit PngReader(const std::filesystem::path& path)
      : path_(path.string()), bytes_(read_file(path, kMostFileBytes)) {
    check_signature();
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ != nullptr) return;
    png_destroy_read_struct(&png_, nullptr, nullptr);
    throw std::bad_alloc();
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  /// The shape [C, H, W] of the picture.
  Shape read_header() {
    guarded([this] {
      png_set_read_fn(png_, this, give_bytes);
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_picture_side gives better errors
      // Chunks that don't change pixels are skipped: compressed text could take gigabytes.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_read_info(png_, info_);
    });
    check_picture_side(path_, "width", png_get_image_width(png_, info_));
    check_picture_side(path_, "height", png_get_image_height(png_, info_));
    guarded([this] {
      png_set_expand(png_);
      png_set_scale_16(png_);
      png_set_strip_alpha(png_);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    return {png_get_channels(png_, info_), png_get_image_height(png_, info_), png_get_image_width(png_, info_)};
  }

  /// The pixels row by row, with the channels of a pixel side by side.
  std::vector<uint8_t> read_pixels() {
    const size_t height = png_get_image_height(png_, info_), row_bytes = png_get_rowbytes(png_, info_);
    std::vector<uint8_t> pixels(height * row_bytes);
    std::vector<png_bytep> rows;
    for (size_t y = 0; y < height; ++y) rows.push_back(pixels.data() + y * row_bytes);
    guarded([&] {
      png_read_image(png_, rows.data());
      png_read_end(png_, nullptr);
    });
    return pixels;
  }

 private:
  template <class Calls>
  void guarded(const Calls& calls) {
    if (setjmp(png_jmpbuf(png_)) != 0)
      refuse(fmt::format("{}: byte {}", path_, at_), "expected a whole PNG image", message_.data(), kGetFileAgain);
    calls();
  }

  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto& self = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self.message_.data(), message, self.message_.size() - 1);
    png_longjmp(png, 1);
  }
  /// Warnings are about things that can be ignored.
  static void on_warning(png_structp, png_const_charp) {}

  static void give_bytes(png_structp png, png_bytep out, size_t bytes) {
    auto& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    const size_t given = std::min(bytes, self.bytes_.size() - self.at_);
    std::memcpy(out, self.bytes_.data() + self.at_, given);
    self.at_ += given;
    if (given < bytes) png_error(png, "the end of the file");
  }

  /// Checks the bytes of the signature that the file has. A file that ends within its signature is later reported as
  /// not whole.
  void check_signature() const {
    const auto* begin = reinterpret_cast<png_const_bytep>(bytes_.data());
    const size_t bytes = std::min(bytes_.size(), kSignatureBytes);
    if (bytes > 0 && png_sig_cmp(begin, 0, bytes) != 0)
      refuse(path_, "expected a PNG or JPEG image", "a file that doesn't begin like one", "convert it to PNG or JPEG");
  }

  [[noreturn]] static void refuse(std::string where, std::string expected, std::string got, std::string advice) {
    throw Error(ExitCode::bad_data, Mistake{.where = std::move(where),
                                            .expected = std::move(expected),
                                            .got = std::move(got),
                                            .advice = std::move(advice)});
  }

  std::string path_;
  std::string bytes_;
  size_t at_ = 0;  ///< bytes that libpng has been given so far
  std::array<char, 200> message_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

Picture read_png(const std::filesystem::path& path) {
  PngReader reader(path);
  const Shape shape = reader.read_header();
  return picture_of_rows(reader.read_pixels(), shape);
}

}  // namespace dptrain
