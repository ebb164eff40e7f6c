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

/// What to do about a file that isn't whole.
inline constexpr const char* kGetFileAgain = "get the file again, it was damaged or only partly copied";

/// The content of a file, read once from its beginning to its end. A file that begins with the bytes 1f 8b, whatever
/// its name, is decompressed on the way: one gzip member (RFC 1952) with nothing after it.
///
/// Everything throws 65 for a gzip stream that is cut off, corrupt, or followed by anything, and 74 where reading
/// fails.
class PlainOrGzipFile {
 public:
  /// Throws 66 where there is no such file, 65 where it is no regular file.
  explicit PlainOrGzipFile(const std::filesystem::path& path);
  PlainOrGzipFile(const PlainOrGzipFile&) = delete;
  PlainOrGzipFile& operator=(const PlainOrGzipFile&) = delete;
  ~PlainOrGzipFile();

  bool is_gzip() const;
  /// As it was opened.
  const FileIdentity& identity() const;
  /// Bytes on the disk.
  int64_t packed_bytes() const;
  /// Bytes of content: exact for a plain file, the most that gzip can make of `packed_bytes()` otherwise.
  int64_t most_bytes() const;
  /// Fills `out`, or as much of it as there is content left; returns the bytes written. A read that meets the end of a
  /// gzip stream has verified its checksum.
  size_t read(std::span<uint8_t> out);

 private:
  class Stream;
  std::unique_ptr<Stream> stream_;
};

/// `name` in the folder, or else `name`.gz; nothing where neither is there.
std::optional<std::filesystem::path> find_plain_or_gzip(const std::filesystem::path& folder, const std::string& name);

/// The same. Throws 66 with `advice` where neither is there.
std::filesystem::path require_plain_or_gzip(const std::filesystem::path& folder, const std::string& name,
                                            const std::string& advice);

}  // namespace dptrain
