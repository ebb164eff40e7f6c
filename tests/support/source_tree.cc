#include "support/source_tree.h"

#include <cstdlib>

namespace dptrain::testing {

std::string source_file(const std::string& path) {
  const char* moved = std::getenv("DPTRAIN_SOURCE_DIR");
  return std::string(moved != nullptr ? moved : DPTRAIN_SOURCE_DIR) + "/" + path;
}

std::string dptrain_binary() {
  const char* moved = std::getenv("DPTRAIN_BINARY");
  return moved != nullptr ? moved : DPTRAIN_BINARY;
}

std::string built_file(const std::string& name) { return DPTRAIN_BUILT_TESTS "/" + name; }

std::string mpirun() { return DPTRAIN_MPIRUN; }

}  // namespace dptrain::testing
