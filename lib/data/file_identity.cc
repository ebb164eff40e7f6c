#include "data/file_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace dptrain {
namespace {

/// FAT has the longest tick.
constexpr int64_t kTick_ns = 2'000'000'000;

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

FileIdentity identity_of(int descriptor, const std::filesystem::path& path) {
  // The clock is read first: any later change of the file gets a later time.
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  struct stat found {};
  if (::fstat(descriptor, &found) != 0)
    throw Error(ExitCode::io,
                fmt::format("{}: could not get the file's status: {}", path.string(), std::strerror(errno)));
  std::error_code unreadable;
  const std::filesystem::path whole = std::filesystem::canonical(path, unreadable);
  FileIdentity identity{.path = unreadable ? path : whole,
                        .bytes = found.st_size,
                        .modified_ns = nanoseconds(found.st_mtim),
                        .changed_ns = nanoseconds(found.st_ctim),
                        .inode = found.st_ino};
  identity.is_settled = std::max(identity.modified_ns, identity.changed_ns) < nanoseconds(now) - kTick_ns;
  return identity;
}

}  // namespace dptrain
