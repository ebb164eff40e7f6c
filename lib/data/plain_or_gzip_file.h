#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "data/file_identity.h"

namespace dptrain {

/// The advice for a file that isn't whole.
inline constexpr const char* kGetFileAgain = "get the file again: it was damaged or only partly copied";

/// The content of a file, read once from beginning to end. A file that begins with the bytes 1f 8b, whatever its name,
/// is decompressed while it is read: one gzip member (RFC 1952) with nothing after it.
///
/// All functions throw 65 for a gzip stream that is cut off, corrupt or followed by anything, and 74 if reading fails.
class PlainOrGzipFile {
 public:
  /// Throws 66 if there is no such file, and 65 if it is not a regular file.
  explicit PlainOrGzipFile(const std::filesystem::path& path);
  PlainOrGzipFile(const PlainOrGzipFile&) = delete;
  PlainOrGzipFile& operator=(const PlainOrGzipFile&) = delete;
  ~PlainOrGzipFile();

  bool is_gzip() const;
  /// The file's identity when it was opened.
  const FileIdentity& identity() const;
  /// Bytes on the disk.
  int64_t packed_bytes() const;
  /// Bytes of content: exact for a plain file; for gzip, the most that `packed_bytes()` can decompress to.
  int64_t most_bytes() const;
  /// Fills `out`, or as much of it as there is content left; returns the number of bytes written. A read that reaches
  /// the end of a gzip stream has verified its checksum.
  size_t read(std::span<uint8_t> out);

 private:
  class Stream;
  std::unique_ptr<Stream> stream_;
};

/// Finds `name` in the folder, or else `name`.gz; empty if neither exists.
std::optional<std::filesystem::path> find_plain_or_gzip(const std::filesystem::path& folder, const std::string& name);

/// Finds such a file, or throws 66 with `advice` if neither exists.
std::filesystem::path require_plain_or_gzip(const std::filesystem::path& folder, const std::string& name,
                                            const std::string& advice);

}  // namespace dptrain
