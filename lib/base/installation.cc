#include "base/installation.h"

namespace dptrain {

std::filesystem::path installed_data() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / "share" / "dptrain";
}

}  // namespace dptrain
