#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file_progress.h"

namespace dptrain {
namespace {

[[noreturn]] void io_failed(std::string_view what, const std::filesystem::path& path, int error) {
  throw Error(ExitCode::io, fmt::format("{}: could not {}: {}", path.string(), what, std::strerror(error)));
}

/// A file descriptor that the destructor closes. `close()` also reports errors of closing.
class OpenFile {
 public:
  OpenFile(const std::filesystem::path& path, int flags) : OpenFile(path, flags, path) {}
  /// `told` is the path that error messages name.
  OpenFile(const std::filesystem::path& path, int flags, const std::filesystem::path& told) : path_(told) {
    // Opening a pipe would block until somebody opens its other end.
    do descriptor_ = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0644);
    while (descriptor_ < 0 && errno == EINTR);
    const int error = errno;
    struct stat found {};
    if (::stat(path.c_str(), &found) == 0 && S_ISFIFO(found.st_mode)) {
      if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
      throw Error(ExitCode::io, Mistake{.where = path.string(),
                                        .expected = "expected a file",
                                        .got = kind_of_what_is_no_file(path),
                                        .advice = "move it away, and put the file in its place"});
    }
    errno = error;
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

  off_t size() const {
    struct stat found {};
    if (::fstat(descriptor_, &found) != 0) io_failed("look at", path_, errno);
    return found.st_size;
  }
  void write(std::span<const std::byte> bytes) {
    // Written in pieces, so that a watchdog sees progress.
    constexpr size_t kPieceBytes = size_t{1} << 24;
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kPieceBytes));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) io_failed("write", path_, errno);
      count_file_piece();
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }
  void sync() {
    if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) io_failed("sync", path_, errno);
    count_file_piece();
  }
  void close() {
    if (::close(std::exchange(descriptor_, -1)) != 0) io_failed("close", path_, errno);
  }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Implements write_file_atomically. With `syncs` it waits for the disk.
void replace_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts, bool syncs) {
  std::filesystem::path aside = path;
  aside += fmt::format(".tmp-{}", ::getpid());
  try {
    OpenFile file(aside, O_WRONLY | O_CREAT | O_TRUNC, path);
    if (!file.is_open()) io_failed("create", path, errno);
    for (const auto part : parts) file.write(part);
    if (syncs) file.sync();
    file.close();
    if (::rename(aside.c_str(), path.c_str()) != 0) io_failed("replace", path, errno);
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
  if (syncs) sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

void replace_file(const std::filesystem::path& path, std::string_view text, bool syncs) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  replace_file(path, std::span(&part, 1), syncs);
}

}  // namespace

std::string kind_of_what_is_no_file(const std::filesystem::path& path) {
  std::error_code error;
  switch (std::filesystem::status(path, error).type()) {
    case std::filesystem::file_type::directory: return "a folder";
    case std::filesystem::file_type::fifo: return "a pipe";
    case std::filesystem::file_type::socket: return "a socket";
    case std::filesystem::file_type::character:
    case std::filesystem::file_type::block: return "a device";
    default: return "something else";
  }
}

std::string read_file(const std::filesystem::path& path, size_t limit_bytes) {
  OpenFile file(path, O_RDONLY);
  if (!file.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR)
      throw Error(ExitCode::missing_file, fmt::format("{}: no such file", path.string()));
    io_failed("open", path, errno);
  }
  std::string text;
  char block[1 << 16];
  for (;;) {
    const ssize_t got = ::read(file.descriptor(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EISDIR)
      throw Error(ExitCode::missing_file, fmt::format("{}: expected a file, got a folder", path.string()));
    if (got < 0) io_failed("read", path, errno);
    count_file_piece();
    if (got == 0) return text;
    text.append(block, static_cast<size_t>(got));
    if (text.size() > limit_bytes)
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: expected at most {} bytes, got more", path.string(), limit_bytes));
  }
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  replace_file(path, parts, /*syncs=*/true);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  replace_file(path, text, /*syncs=*/true);
}

void write_file_unsynced(const std::filesystem::path& path, std::string_view text) {
  replace_file(path, text, /*syncs=*/false);
}

void append_bytes(const std::filesystem::path& path, std::string_view bytes, Sync sync) {
  OpenFile file(path, O_WRONLY | O_CREAT | O_APPEND);
  if (!file.is_open()) io_failed("open", path, errno);
  const off_t size_before = file.size();
  try {
    file.write(std::as_bytes(std::span(bytes)));
    if (sync == Sync::now) file.sync();
    file.close();
  } catch (...) {
    [[maybe_unused]] const int result = ::truncate(path.c_str(), size_before);
    throw;
  }
}

void append_line(const std::filesystem::path& path, std::string_view line) {
  append_bytes(path, std::string(line) + "\n", Sync::now);
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    throw Error(ExitCode::io, fmt::format("{}: could not create the folder: {}", path.string(), error.message()));
}

std::optional<FileNumber> file_number(const std::filesystem::path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return FileNumber{.device = found.st_dev, .inode = found.st_ino};
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::error_code error;
  const auto kind = std::filesystem::symlink_status(folder, error).type();
  if (kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::regular) return {};
  std::vector<std::filesystem::path> entries;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    entries.push_back(entry->path());
  if (error) io_failed("read the folder", folder, error.value());
  return entries;
}

void require_readable_folder(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(path, error);
  if (!error || error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) return;
  io_failed("read the folder", path, error.value());
}

void sync_folder(const std::filesystem::path& folder) {
  OpenFile handle(folder, O_RDONLY | O_DIRECTORY);
  if (!handle.is_open()) io_failed("open", folder, errno);
  handle.sync();
}

}  // namespace dptrain
