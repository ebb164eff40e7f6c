#include "base/digit_groups.h"

#include <fmt/format.h>

#include <cstddef>

namespace dptrain {

std::string digit_groups(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

}  // namespace dptrain
