#pragma once

#include <filesystem>
#include <vector>

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
  /// The directory stays, with its lock.
  void keep() { kept_ = true; }
  /// The lock goes, and with it the directory where nothing else lies in it.
  void remove();

 private:
  DirectoryLock(std::filesystem::path path, std::vector<std::filesystem::path> absent);
  void take();

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  ///< the folders that weren't there, the innermost first
  int descriptor_ = -1;
  bool is_new_ = false;
  bool kept_ = false;
};

}  // namespace dptrain::train
