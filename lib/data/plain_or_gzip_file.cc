#include "data/plain_or_gzip_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/file_progress.h"

namespace dptrain {
namespace {

constexpr size_t kChunkBytes = size_t{64} << 10;

/// Deflate's best ratio: a match of 258 bytes in two bits (https://zlib.net/zlib_tech.html).
constexpr int64_t kMostExpansion = 1032;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void io_failed(const std::filesystem::path& path, const char* what, const std::string& why) {
  throw Error(ExitCode::io, fmt::format("{}: could not {}: {}", path.string(), what, why));
}

std::unique_ptr<std::FILE, CloseFile> opened(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    throw Error(ExitCode::missing_file, fmt::format("{}: no such file", path.string()));
  if (!error && status.type() != std::filesystem::file_type::regular)
    throw Error(ExitCode::bad_data, Mistake{.where = path.string(),
                                            .expected = "expected a regular file",
                                            .got = kind_of_what_is_no_file(path),
                                            .advice = "put the file in its place"});
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (!file) io_failed(path, "open", std::strerror(errno));
  return file;
}

}  // namespace

class PlainOrGzipFile::Stream {
 public:
  explicit Stream(const std::filesystem::path& path)
      : path_(path), file_(opened(path)), identity_(identity_of(::fileno(file_.get()), path)) {
    refill();
    gzip_ = left() >= 2 && input_[0] == 0x1f && input_[1] == 0x8b;
    // Adding 16 to the window bits makes zlib accept only gzip's framing, with its checksum.
    if (gzip_ && inflateInit2(&zlib_, MAX_WBITS + 16) != Z_OK) throw std::bad_alloc();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (gzip_) inflateEnd(&zlib_);
  }

  bool is_gzip() const { return gzip_; }
  const FileIdentity& identity() const { return identity_; }
  int64_t packed_bytes() const { return identity_.bytes; }
  size_t read(std::span<uint8_t> out) { return gzip_ ? inflated(out) : copied(out); }

 private:
  size_t left() const { return input_end_ - input_begin_; }

  /// Reads the next chunk of the file once the last one is used up; returns false at the end of the file.
  bool refill() {
    if (left() > 0) return true;
    input_begin_ = 0;
    input_end_ = std::fread(input_.data(), 1, input_.size(), file_.get());
    if (std::ferror(file_.get())) io_failed(path_, "read", std::strerror(errno));
    count_file_piece();
    return input_end_ > 0;
  }

  size_t copied(std::span<uint8_t> out) {
    size_t done = 0;
    while (done < out.size() && refill()) {
      const size_t now = std::min(left(), out.size() - done);
      std::memcpy(out.data() + done, input_.data() + input_begin_, now);
      input_begin_ += now;
      done += now;
    }
    return done;
  }

  size_t inflated(std::span<uint8_t> out) {
    size_t done = 0;
    while (done < out.size() && !ended_) {
      if (!refill()) bad_gzip("expected the end of its gzip stream", "the end of the file", kGetFileAgain);
      const size_t now = std::min(kChunkBytes, out.size() - done);
      zlib_.next_in = input_.data() + input_begin_;
      zlib_.avail_in = static_cast<uInt>(left());
      zlib_.next_out = out.data() + done;
      zlib_.avail_out = static_cast<uInt>(now);
      const int result = inflate(&zlib_, Z_NO_FLUSH);
      input_begin_ = input_end_ - zlib_.avail_in;
      done += now - zlib_.avail_out;
      if (result == Z_MEM_ERROR) throw std::bad_alloc();
      if (result == Z_STREAM_END) {
        ended_ = true;
        check_nothing_follows();
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        // zlib says which check failed: "incorrect data check" is the CRC.
        bad_gzip("expected a gzip stream that decompresses", zlib_.msg != nullptr ? zlib_.msg : zError(result),
                 kGetFileAgain);
      }
    }
    return done;
  }

  void check_nothing_follows() {
    if (!refill()) return;
    const bool member = left() >= 2 && input_[input_begin_] == 0x1f && input_[input_begin_ + 1] == 0x8b;
    bad_gzip("expected one gzip member", member ? "a second one" : "other bytes after it",
             "compress the data again into a file of its own");
  }

  [[noreturn]] void bad_gzip(std::string expected, std::string got, std::string advice) const {
    throw Error(ExitCode::bad_data, Mistake{.where = path_.string(),
                                            .expected = std::move(expected),
                                            .got = std::move(got),
                                            .advice = std::move(advice)});
  }

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  FileIdentity identity_;
  std::array<uint8_t, kChunkBytes> input_;
  size_t input_begin_ = 0;
  size_t input_end_ = 0;
  z_stream zlib_{};
  bool gzip_ = false;
  bool ended_ = false;
};

PlainOrGzipFile::PlainOrGzipFile(const std::filesystem::path& path) : stream_(std::make_unique<Stream>(path)) {}

PlainOrGzipFile::~PlainOrGzipFile() = default;

bool PlainOrGzipFile::is_gzip() const { return stream_->is_gzip(); }

const FileIdentity& PlainOrGzipFile::identity() const { return stream_->identity(); }

int64_t PlainOrGzipFile::packed_bytes() const { return stream_->packed_bytes(); }

int64_t PlainOrGzipFile::most_bytes() const {
  if (!is_gzip()) return packed_bytes();
  return std::min(packed_bytes(), std::numeric_limits<int64_t>::max() / kMostExpansion) * kMostExpansion;
}

size_t PlainOrGzipFile::read(std::span<uint8_t> out) { return stream_->read(out); }

std::optional<std::filesystem::path> find_plain_or_gzip(const std::filesystem::path& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz"}) {
    std::filesystem::path path = folder / (name + suffix);
    std::error_code unreadable;
    if (std::filesystem::exists(path, unreadable)) return path;
  }
  return std::nullopt;
}

std::filesystem::path require_plain_or_gzip(const std::filesystem::path& folder, const std::string& name,
                                            const std::string& advice) {
  if (auto path = find_plain_or_gzip(folder, name)) return *std::move(path);
  require_readable_folder(folder);
  throw Error(ExitCode::missing_file, Mistake{.where = folder.string(),
                                              .expected = fmt::format("expected {0} or {0}.gz", name),
                                              .got = "neither",
                                              .advice = advice});
}

}  // namespace dptrain
