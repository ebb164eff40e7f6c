#pragma once

#include <string>
#include <string_view>

namespace dptrain {

/// Escapes `text` for an HTML page, also for use in a quoted attribute: & < > " and '. Bytes that aren't UTF-8, and
/// control characters except tabs and newlines, become U+FFFD.
std::string html_text(std::string_view text);

}  // namespace dptrain
