#include "data/idx_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "data/plain_or_gzip_file.h"

namespace dptrain {
namespace {

constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;

constexpr int64_t kMostImages = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostPixelsASide = 65535;
static_assert(kMostImages <= std::numeric_limits<int64_t>::max() / (kMostPixelsASide * kMostPixelsASide) - 1,
              "the size of a file within these limits, header included, must not overflow");

/// Reads one file, field by field; its errors name the field.
class IdxReader {
 public:
  explicit IdxReader(const std::filesystem::path& path) : path_(path.string()), file_(path) {}

  bool is_gzip() const { return file_.is_gzip(); }
  const FileIdentity& file() const { return file_.identity(); }

  void check_magic(uint32_t magic) {
    const uint32_t found = word("magic number");
    if (found == magic) return;
    const auto text = [](uint32_t value) {
      return fmt::format("0x{:08x}{}", value,
                         value == kImagesMagic   ? " (IDX images)"
                         : value == kLabelsMagic ? " (IDX labels)"
                                                 : "");
    };
    const bool swapped = found == kImagesMagic || found == kLabelsMagic;
    refuse("magic number", "expected " + text(magic), text(found),
           swapped ? "the names of the image and the label file may be swapped" : "give an IDX file, plain or gzip");
  }

  int64_t dimension(const char* field, int64_t most) {
    const int64_t found = word(field);
    if (found < 1 || found > most)
      refuse(field, fmt::format("expected 1 to {}", most), fmt::format("{}", found), kGetFileAgain);
    return found;
  }

  /// Checks that the rest of a plain file is `bytes` long.
  void check_body(const char* field, int64_t bytes) const {
    check_size(field, bytes, file_.most_bytes() - header_bytes_);
  }

  /// Reads the rest of the file, which must be `bytes` long.
  std::vector<uint8_t> body(const char* field, int64_t bytes) {
    if (!is_gzip()) check_body(field, bytes);
    if (bytes > file_.most_bytes() - header_bytes_)
      refuse(field, fmt::format("expected {} bytes, as the header says", bytes),
             fmt::format("at most {}, the most that a gzip file of {} bytes can hold",
                         file_.most_bytes() - header_bytes_, file_.packed_bytes()),
             kGetFileAgain);
    std::vector<uint8_t> values;
    values.reserve(static_cast<size_t>(bytes));
    // Memory is touched only as content arrives, so a false header costs no more than the file really holds.
    constexpr size_t kStepBytes = size_t{64} << 10;
    while (values.size() < static_cast<size_t>(bytes)) {
      const size_t have = values.size();
      const size_t step = std::min(kStepBytes, static_cast<size_t>(bytes) - have);
      values.resize(have + step);
      const size_t got = file_.read(std::span(values).subspan(have));
      if (got < step) check_size(field, bytes, static_cast<int64_t>(have + got));
    }
    // Asking for one more byte also makes gzip verify its checksum.
    uint8_t beyond = 0;
    if (file_.read(std::span(&beyond, 1)) > 0)
      refuse(field, fmt::format("expected {} bytes, as the header says", bytes), "more", kGetFileAgain);
    return values;
  }

 private:
  uint32_t word(const char* field) {
    std::array<uint8_t, 4> bytes{};
    const size_t got = file_.read(bytes);
    if (got < bytes.size())
      refuse(field, "expected 4 bytes", fmt::format("the end of the file after {}", got), kGetFileAgain);
    header_bytes_ += 4;
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
  }

  void check_size(const char* field, int64_t expected, int64_t found) const {
    if (found != expected)
      refuse(field, fmt::format("expected {} bytes, as the header says", expected), fmt::format("{}", found),
             kGetFileAgain);
  }

  [[noreturn]] void refuse(const char* field, std::string expected, std::string got, std::string advice) const {
    throw Error(ExitCode::bad_data, Mistake{.where = fmt::format("{}: {}", path_, field),
                                            .expected = std::move(expected),
                                            .got = std::move(got),
                                            .advice = std::move(advice)});
  }

  std::string path_;
  PlainOrGzipFile file_;
  int64_t header_bytes_ = 0;
};

constexpr const char* kPixels = "pixels";

IdxSizes read_sizes(IdxReader& reader) {
  reader.check_magic(kImagesMagic);
  IdxSizes sizes;
  sizes.count = reader.dimension("number of images", kMostImages);
  sizes.height = reader.dimension("rows", kMostPixelsASide);
  sizes.width = reader.dimension("columns", kMostPixelsASide);
  return sizes;
}

}  // namespace

IdxImages read_idx_images(const std::filesystem::path& path) {
  IdxReader reader(path);
  IdxImages images{read_sizes(reader), {}, reader.file()};
  images.pixels = reader.body(kPixels, images.count * images.height * images.width);
  return images;
}

std::optional<IdxSizes> read_plain_idx_sizes(const std::filesystem::path& path) {
  IdxReader reader(path);
  if (reader.is_gzip()) return std::nullopt;
  const IdxSizes sizes = read_sizes(reader);
  reader.check_body(kPixels, sizes.count * sizes.height * sizes.width);
  return sizes;
}

std::vector<uint8_t> read_idx_labels(const std::filesystem::path& path) {
  IdxReader reader(path);
  reader.check_magic(kLabelsMagic);
  const int64_t count = reader.dimension("number of labels", kMostImages);
  return reader.body("labels", count);
}

}  // namespace dptrain
