#include "data/stored_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_progress.h"

namespace dptrain {
namespace {

constexpr int64_t kReadBytes = int64_t{1} << 20;

[[noreturn]] void io_failed(const std::filesystem::path& path, const char* what, int error) {
  throw Error(ExitCode::io, fmt::format("{}: could not {}: {}", path.string(), what, std::strerror(error)));
}

int open_descriptor(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR))
    throw Error(ExitCode::missing_file, fmt::format("{}: no such file", path.string()));
  if (descriptor < 0) io_failed(path, "open", errno);
  struct stat found {};
  if (::fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode)) return descriptor;
  ::close(descriptor);
  throw Error(ExitCode::bad_data, Mistake{.where = path.string(),
                                          .expected = "expected a regular file",
                                          .got = kind_of_what_is_no_file(path),
                                          .advice = "put the file in its place"});
}

}  // namespace

StoredFile::StoredFile(const std::filesystem::path& path)
    : path_(path),
      descriptor_(open_descriptor(path)),
      identity_(identity_of(descriptor_, path)),
      is_read_(static_cast<size_t>((identity_.bytes + kBlockBytes - 1) / kBlockBytes)) {}

StoredFile::~StoredFile() { ::close(descriptor_); }

void StoredFile::read(int64_t offset, std::span<uint8_t> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor_, out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) io_failed(path_, "read", errno);
    if (got == 0) break;
    count_file_piece();
    done += static_cast<size_t>(got);
  }
  struct stat now {};
  if (::fstat(descriptor_, &now) != 0) io_failed(path_, "get the file's status", errno);
  const int64_t modified_ns = int64_t{now.st_mtim.tv_sec} * 1'000'000'000 + now.st_mtim.tv_nsec;
  if (done < out.size() || now.st_size != identity_.bytes || modified_ns != identity_.modified_ns)
    throw Error(ExitCode::bad_data,
                Mistake{.where = path_.string(),
                        .expected = "expected the file to stay unchanged while it is in use",
                        .got = "a change",
                        .advice = "write new data to another file, rename that file into place, and start again"});
  note_read(offset, offset + static_cast<int64_t>(done));
}

void StoredFile::note_read(int64_t begin, int64_t end) const {
  for (int64_t block = begin / kBlockBytes; block * kBlockBytes < end; ++block) {
    std::atomic<bool>& is_read = is_read_[static_cast<size_t>(block)];
    if (!is_read.load(std::memory_order_relaxed) && !is_read.exchange(true, std::memory_order_relaxed))
      read_blocks_.fetch_add(1, std::memory_order_relaxed);
  }
}

void StoredFile::read_through(int64_t begin, int64_t end, int64_t unit,
                              const std::function<void(std::span<const uint8_t>)>& take) const {
  DPTRAIN_CHECK(unit > 0 && (end - begin) % unit == 0, "bytes {} to {} in units of {}", begin, end, unit);
  const int64_t step = std::max<int64_t>(1, kReadBytes / unit) * unit;
  std::vector<uint8_t> bytes(static_cast<size_t>(std::min(step, end - begin)));
  for (int64_t at = begin; at < end; at += step) {
    const std::span<uint8_t> piece = std::span(bytes).first(static_cast<size_t>(std::min(step, end - at)));
    read(at, piece);
    take(piece);
  }
}

}  // namespace dptrain
