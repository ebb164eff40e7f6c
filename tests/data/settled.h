#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "data/stored_file.h"

namespace dptrain::testing {

/// Waits until the file has been unchanged long enough for results computed from it to be cached.
inline void wait_until_settled(const std::filesystem::path& file) {
  for (int i = 0; i < 100; ++i) {
    if (StoredFile(file).identity().is_settled) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  FAIL() << file << " never settles";
}

}  // namespace dptrain::testing
