#include "base/check.h"

#include <string_view>

namespace dptrain {

void report_bug(const char* file, int line, const char* condition, const std::string& message) {
  std::string_view path(file);
  if (const auto root = path.rfind("lib/"); root != std::string_view::npos) path.remove_prefix(root);
  throw Error(ExitCode::bug, fmt::format("{}:{}: {} ({} does not hold); this is a bug in dptrain, please report it",
                                         path, line, message, condition));
}

}  // namespace dptrain
