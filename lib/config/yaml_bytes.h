#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dptrain {

/// A byte that isn't allowed in a config, and what it is.
struct BadByte {
  size_t position = 0;
  std::string what;  ///< "a NUL byte"
};

/// The first control character except tab and line ends, or the first byte that isn't UTF-8 (RFC 3629). yaml-cpp would
/// pass on control characters, or silently stop at some, and replace bytes that aren't UTF-8.
std::optional<BadByte> first_bad_byte(std::string_view text);

}  // namespace dptrain
