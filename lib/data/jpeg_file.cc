#include "data/jpeg_file.h"

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
// jpeglib.h must come after these, which it needs.
#include <jerror.h>
#include <jpeglib.h>

#include <string>

#include "base/error.h"
#include "base/file.h"
#include "data/plain_or_gzip_file.h"

namespace dptrain {
namespace {

/// Far more bytes than a photograph with the longest sides takes.
constexpr size_t kMostJpegBytes = size_t{4} * kMostPicturePixels * kMostPicturePixels;
/// A progressive file has some dozens of scans at most. Each scan is decoded as a whole image, so a file with very many
/// would take very long.
constexpr int kMostScans = 500;

/// Runs libjpeg on one file. libjpeg reports an error by calling `fail`, which must not return, so it makes a long
/// jump. The jump must not pass over an object with a destructor: every call that can fail is in a `guarded` call that
/// holds nothing else.
class JpegReader {
 public:
  explicit JpegReader(const std::filesystem::path& path) : path_(path), bytes_(read_file(path, kMostJpegBytes)) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr jpeg) { fail(jpeg); };
    errors_.emit_message = note;
    jpeg_.client_data = this;
    guarded([this] { jpeg_create_decompress(&jpeg_); });
    scans_.progress_monitor = count_scans;
    jpeg_.progress = &scans_;
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }

  /// The shape [C, H, W] of the picture.
  Shape read_header() {
    guarded([this] {
      jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
      jpeg_read_header(&jpeg_, TRUE);
    });
    check_picture_side(path_, "width", jpeg_.image_width);
    check_picture_side(path_, "height", jpeg_.image_height);
    if (jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK)
      throw Error(ExitCode::bad_data, Mistake{.where = path_.string(),
                                              .expected = "expected a grayscale or RGB image",
                                              .got = "a CMYK image, which has the colors of a printer",
                                              .advice = "convert it to RGB"});
    const bool is_gray = jpeg_.jpeg_color_space == JCS_GRAYSCALE;
    jpeg_.out_color_space = is_gray ? JCS_GRAYSCALE : JCS_RGB;
    return {is_gray ? 1 : 3, jpeg_.image_height, jpeg_.image_width};
  }

  /// The pixels row by row, with the channels of a pixel side by side.
  std::vector<uint8_t> read_rows(const Shape& shape) {
    std::vector<uint8_t> pixels(static_cast<size_t>(shape.elements()));
    const size_t row_bytes = static_cast<size_t>(shape[0] * shape[2]);
    guarded([&] {
      jpeg_start_decompress(&jpeg_);
      while (jpeg_.output_scanline < jpeg_.output_height) {
        JSAMPROW row = pixels.data() + jpeg_.output_scanline * row_bytes;
        jpeg_read_scanlines(&jpeg_, &row, 1);
      }
      jpeg_finish_decompress(&jpeg_);
    });
    return pixels;
  }

 private:
  template <class Calls>
  void guarded(const Calls& calls) {
    if (setjmp(failed_) != 0) {
      const int code = errors_.msg_code;
      if (code == JERR_SOF_UNSUPPORTED || code == JERR_BAD_PRECISION || code == JERR_CONVERSION_NOTIMPL)
        throw Error(ExitCode::bad_data, Mistake{.where = path_.string(),
                                                .expected = "expected a JPEG image of a common kind",
                                                .got = message_.data(),
                                                .advice = "convert it to PNG"});
      throw Error(ExitCode::bad_data, Mistake{.where = path_.string(),
                                              .expected = "expected a whole JPEG image",
                                              .got = message_.data(),
                                              .advice = std::string(kGetFileAgain)});
    }
    calls();
  }

  [[noreturn]] static void fail(j_common_ptr jpeg) {
    auto& self = *static_cast<JpegReader*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, self.message_.data());
    std::longjmp(self.failed_, 1);
  }
  /// Fails for missing data, which libjpeg would replace by gray, and for unexpected data, which it would skip.
  static void note(j_common_ptr jpeg, int level) {
    if (level < 0 && (jpeg->err->msg_code == JWRN_JPEG_EOF || jpeg->err->msg_code == JWRN_HIT_MARKER)) fail(jpeg);
  }
  static void count_scans(j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
    auto& self = *static_cast<JpegReader*>(jpeg->client_data);
    std::snprintf(self.message_.data(), self.message_.size(), "more than %d scans", kMostScans);
    std::longjmp(self.failed_, 1);
  }

  std::filesystem::path path_;
  std::string bytes_;
  jpeg_decompress_struct jpeg_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_progress_mgr scans_ = {};
  std::jmp_buf failed_ = {};
  std::array<char, JMSG_LENGTH_MAX> message_ = {};
};

}  // namespace

Picture read_jpeg(const std::filesystem::path& path) {
  JpegReader reader(path);
  const Shape shape = reader.read_header();
  return picture_of_rows(reader.read_rows(shape), shape);
}

}  // namespace dptrain
