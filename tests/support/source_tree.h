#pragma once

#include <cstdlib>
#include <string>

namespace dptrain::testing {

/// A file of the source tree. The tree is where these tests were built; on another machine, where $DPTRAIN_SOURCE_DIR
/// says.
inline std::string source_file(const std::string& path) {
  const char* moved = std::getenv("DPTRAIN_SOURCE_DIR");
  return std::string(moved != nullptr ? moved : DPTRAIN_SOURCE_DIR) + "/" + path;
}

/// The program under test: the one built with these tests, or $DPTRAIN_BINARY.
inline std::string dptrain_binary() {
  const char* moved = std::getenv("DPTRAIN_BINARY");
  return moved != nullptr ? moved : DPTRAIN_BINARY;
}

}  // namespace dptrain::testing
