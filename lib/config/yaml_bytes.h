#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dptrain {

/// A byte that may not stand in a configuration, and what it is.
struct BadByte {
  size_t position = 0;
  std::string what;  ///< "a NUL byte"
};

/// The first control character but tab and line ends, or the first byte that isn't UTF-8 (RFC 3629).
/// yaml-cpp would pass the former on, stop silently at some, and replace the latter.
std::optional<BadByte> first_bad_byte(std::string_view text);

}  // namespace dptrain
