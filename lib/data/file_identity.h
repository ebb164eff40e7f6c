#pragma once

#include <cstdint>
#include <filesystem>

namespace dptrain {

/// Tells the content of a file from earlier or later content, without reading it.
struct FileIdentity {
  std::filesystem::path path = {};  ///< absolute, symbolic links resolved
  int64_t bytes = 0;
  int64_t modified_ns = 0;  ///< last change of its content, since 1970
  int64_t changed_ns = 0;   ///< last change of its content or its inode; no program can set it back
  uint64_t inode = 0;
  /// Whether the last change was longer ago than one tick of the clock of any file system. If not, another change may
  /// leave the same times, so that the times say nothing about the content.
  bool is_settled = false;
};

/// The identity of an open file. `path` is the name by which it was opened. Throws 74.
FileIdentity identity_of(int descriptor, const std::filesystem::path& path);

}  // namespace dptrain
