#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/file.h"

namespace dptrain::train {

/// What to do where a run's directory can't be used.
inline constexpr const char* kElsewhere = "choose another with --out";

/// A directory that one process at a time holds, by the file `.lock` in it. Unless it is kept, the directory is left as
/// it was found.
class DirectoryLock {
 public:
  /// Makes the directory where there is none. Throws 74 where another process holds it or it can't be written.
  explicit DirectoryLock(const std::filesystem::path& path);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  /// Whether nobody had kept it before.
  bool is_new() const { return is_new_; }
  /// Throws 74 where the directory isn't the one that was locked any more: removed or renamed, and maybe made anew by
  /// somebody else. For before each write, which would make it again.
  void require_held() const;
  /// The directory stays, with its lock.
  void keep() { kept_ = true; }
  /// The lock goes, and with it the directory where nothing else lies in it.
  void remove();

 private:
  bool is_held() const;
  DirectoryLock(std::filesystem::path path, std::vector<std::filesystem::path> absent);
  void take();

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  ///< the folders that weren't there, the innermost first
  int descriptor_ = -1;
  std::optional<FileNumber> number_;  ///< of the file
  bool is_new_ = false;
  bool kept_ = false;
};

/// Of the lock in `directory`: another one after the directory was removed and made anew. Nothing where there is none.
std::optional<FileNumber> lock_number(const std::filesystem::path& directory);

}  // namespace dptrain::train
