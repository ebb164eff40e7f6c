#include "base/counted.h"

#include <fmt/format.h>

namespace dptrain {

std::string counted(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace dptrain
