#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/file.h"

namespace dptrain::train {

/// Advice if a run's directory can't be used.
inline constexpr const char* kElsewhere = "choose another with --out";

/// A lock on a directory, held by one process at a time through the file `.lock` in it. Unless keep() is called, the
/// directory is left as it was found.
class DirectoryLock {
 public:
  /// Locks the directory, and makes it if it is missing. Throws 74 if another process holds it or it can't be written.
  explicit DirectoryLock(const std::filesystem::path& path);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  /// Whether nobody has kept the directory before.
  bool is_new() const { return is_new_; }
  /// Throws 74 if the path no longer leads to the locked directory: somebody has removed or renamed it, and perhaps
  /// made a new one. Call it before each write, which would otherwise make the directory again.
  void require_held() const;
  /// Keeps the directory and its lock file.
  void keep() { kept_ = true; }
  /// Removes the lock file, and the directory if nothing else is in it.
  void remove();

 private:
  bool is_held() const;
  DirectoryLock(std::filesystem::path path, std::vector<std::filesystem::path> absent);
  void take();

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  ///< the folders that were missing, the innermost first
  int descriptor_ = -1;
  std::optional<FileNumber> number_;  ///< of the lock file
  bool is_new_ = false;
  bool kept_ = false;
};

/// Whether a process holds the directory's lock, according to /proc/locks. False if that can't be known: the process
/// may be on another host or in another container. Taking the lock to find out could keep a run from starting.
bool is_locked(const std::filesystem::path& directory);

/// The number of the lock file in `directory`; nothing if there is none. It changes if the directory is removed and
/// made again.
std::optional<FileNumber> lock_number(const std::filesystem::path& directory);

}  // namespace dptrain::train
