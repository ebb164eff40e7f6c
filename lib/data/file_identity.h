#pragma once

#include <cstdint>
#include <filesystem>

namespace dptrain {

/// What tells the content of a file from what was there before or comes later, without reading it.
struct FileIdentity {
  std::filesystem::path path = {};  ///< absolute, symbolic links resolved
  int64_t bytes = 0;
  int64_t modified_ns = 0;  ///< of its content, since 1970
  int64_t changed_ns = 0;   ///< of its inode as well: no program can set it back
  uint64_t inode = 0;
  /// It had not changed for longer than the clock of any file system takes for a tick. A change after one that is more
  /// recent may leave the same times, so that they say nothing of the content.
  bool is_settled = false;
};

/// Of an open file; `path` is the name it was opened by. Throws 74.
FileIdentity identity_of(int descriptor, const std::filesystem::path& path);

}  // namespace dptrain
