#pragma once

#include <fmt/format.h>

#include "support/launch.h"
#include "support/sanitizer.h"

namespace dptrain::testing {

/// Skips where no library can be preloaded.
#define DPTRAIN_NEEDS_SLOW_DISK()                                                \
  do {                                                                           \
    if (kShadowedMemory) GTEST_SKIP() << "a sanitizer wants to be loaded first"; \
  } while (false)

/// A slow disk for the programs that are started with it. It has its normal speed until it is slowed down
/// (slow_disk.cc).
class SlowDisk {
 public:
  Command with(const Command& command) const {
    Command all = {"/usr/bin/env", "LD_PRELOAD=" + built_file("libslow_disk.so"),
                   "DPTRAIN_TEST_BUSY=" + busy_.string()};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  /// From now on each sync, and each read at an offset of a file, takes this much longer.
  void slow(double sync_s, double read_s) const { folder_.write("busy", fmt::format("{} {}", sync_s, read_s)); }
  void mend() const { std::filesystem::remove(busy_); }

 private:
  ScratchFolder folder_;
  std::filesystem::path busy_ = folder_.path() / "busy";
};

}  // namespace dptrain::testing
