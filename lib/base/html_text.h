#pragma once

#include <string>
#include <string_view>

namespace dptrain {

/// `text` as a page of HTML shows it, also within a quoted attribute: & < > " and ' are escaped. What no page may hold,
/// control characters but for tabs and ends of lines and bytes that aren't UTF-8, becomes U+FFFD.
std::string html_text(std::string_view text);

}  // namespace dptrain
