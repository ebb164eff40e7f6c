#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "data/file_identity.h"

namespace dptrain {

/// An uncompressed file that stays open and is read in parts, as they are asked for, by any thread.
class StoredFile {
 public:
  /// Throws 66 where there is no such file, 65 where it is no regular file, 74 where it can't be opened.
  explicit StoredFile(const std::filesystem::path& path);
  StoredFile(const StoredFile&) = delete;
  StoredFile& operator=(const StoredFile&) = delete;
  ~StoredFile();

  /// As it was opened.
  const FileIdentity& identity() const { return identity_; }
  /// Fills `out` with the bytes from `offset` on. Throws 65 where the file is no longer as it was opened, so that what
  /// is read is always of the content that was checked; 74 where it can't be read.
  void read(int64_t offset, std::span<uint8_t> out) const;
  /// Reads bytes `begin` to `end` - 1 in order; `take` gets them in pieces, whole `unit`s each.
  void read_through(int64_t begin, int64_t end, int64_t unit,
                    const std::function<void(std::span<const uint8_t>)>& take) const;
  /// How much of the file was read so far, in blocks; what was read twice counts once.
  int64_t read_bytes() const { return read_blocks_.load(std::memory_order_relaxed) * kBlockBytes; }

  static constexpr int64_t kBlockBytes = 4096;

 private:
  void note_read(int64_t begin, int64_t end) const;

  std::filesystem::path path_;
  int descriptor_;
  FileIdentity identity_;
  mutable std::vector<std::atomic<bool>> is_read_;  ///< of each block
  mutable std::atomic<int64_t> read_blocks_ = 0;
};

}  // namespace dptrain
