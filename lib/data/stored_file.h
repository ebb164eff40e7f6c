#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "data/file_identity.h"

namespace dptrain {

/// An uncompressed file that stays open and is read in parts, when they are asked for, by any thread.
class StoredFile {
 public:
  /// Throws 66 if there is no such file, 65 if it is not a regular file, and 74 if it can't be opened.
  explicit StoredFile(const std::filesystem::path& path);
  StoredFile(const StoredFile&) = delete;
  StoredFile& operator=(const StoredFile&) = delete;
  ~StoredFile();

  /// The file's identity when it was opened.
  const FileIdentity& identity() const { return identity_; }
  /// Fills `out` with the bytes from `offset` on. Throws 65 if the file has changed since it was opened, so that all
  /// bytes read belong to the content that was checked. Throws 74 if the file can't be read.
  void read(int64_t offset, std::span<uint8_t> out) const;
  /// Reads bytes `begin` to `end` - 1 in order. `take` gets them in pieces that are whole multiples of `unit`.
  void read_through(int64_t begin, int64_t end, int64_t unit,
                    const std::function<void(std::span<const uint8_t>)>& take) const;
  /// Bytes read so far, in whole blocks; a block that was read twice counts once.
  int64_t read_bytes() const { return read_blocks_.load(std::memory_order_relaxed) * kBlockBytes; }

  static constexpr int64_t kBlockBytes = 4096;

 private:
  void note_read(int64_t begin, int64_t end) const;

  std::filesystem::path path_;
  int descriptor_;
  FileIdentity identity_;
  mutable std::vector<std::atomic<bool>> is_read_;  ///< for each block
  mutable std::atomic<int64_t> read_blocks_ = 0;
};

}  // namespace dptrain
