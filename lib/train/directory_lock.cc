#include "train/directory_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/error.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = ".lock";

/// The folders that make_folder(path) would make, the innermost first. A link counts as existing, wherever it leads.
std::vector<fs::path> absent_folders(fs::path path) {
  std::vector<fs::path> absent;
  std::error_code error;
  for (; !path.empty() && fs::symlink_status(path, error).type() == fs::file_type::not_found; path = path.parent_path())
    absent.push_back(path);
  return absent;
}

}  // namespace

// Once this constructor has completed, an exception in the one that delegates to it runs the destructor.
DirectoryLock::DirectoryLock(fs::path path, std::vector<fs::path> absent)
    : path_(std::move(path)), made_(std::move(absent)) {}

DirectoryLock::DirectoryLock(const fs::path& path) : DirectoryLock(path, absent_folders(path)) {
  try {
    make_folder(path);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}; {}", error.what(), kElsewhere));
  }
  take();
}

void DirectoryLock::take() {
  const fs::path lock = path_ / kLock;
  descriptor_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  const bool created = descriptor_ >= 0;
  if (!created && errno == EEXIST) descriptor_ = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor_ < 0)
    throw Error(ExitCode::io,
                fmt::format("{}: could not create: {}; {}", lock.string(), std::strerror(errno), kElsewhere));
  // A lock file without a name belongs to a process that has just removed it on leaving the directory.
  struct stat held {};
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 || ::fstat(descriptor_, &held) != 0 || held.st_nlink == 0)
    throw Error(ExitCode::io, Mistake{.where = path_.string(),
                                      .expected = "another process is writing this run directory",
                                      .got = "",
                                      .advice = "wait for it, or choose another with --out"});
  is_new_ = created;
  number_ = lock_number(path_);
}

bool is_locked(const fs::path& directory) {
  const auto number = lock_number(directory);
  if (!number) return false;
  // A line is "1: FLOCK  ADVISORY  WRITE 4711 fd:00:1234 0 EOF": the holder's pid, and the file's device and inode.
  const std::string file =
      fmt::format(" {:02x}:{:02x}:{} ", major(number->device), minor(number->device), number->inode);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);)
    if (line.find(" FLOCK ") != std::string::npos && line.find(file) != std::string::npos) return true;
  return false;
}

std::optional<FileNumber> lock_number(const fs::path& directory) { return file_number(directory / kLock); }

bool DirectoryLock::is_held() const {
  // While the descriptor is open, no other file can get its number.
  return number_ && lock_number(path_) == number_;
}

void DirectoryLock::require_held() const {
  if (is_held()) return;
  throw Error(
      ExitCode::io,
      Mistake{
          .where = path_.string(),
          .expected = "the run directory was removed or renamed while it was written to",
          .got = "",
          .advice = "if it was renamed, go on from its last checkpoint with its new name as --out and with --resume"});
}

void DirectoryLock::remove() {
  std::error_code error;
  fs::remove(path_ / kLock, error);
  ::rmdir(path_.c_str());
}

DirectoryLock::~DirectoryLock() {
  std::error_code error;
  if (is_new_ && !kept_ && is_held()) fs::remove(path_ / kLock, error);
  // rmdir leaves folders that aren't empty, such as those of a kept lock.
  for (const fs::path& folder : made_) ::rmdir(folder.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace dptrain::train
