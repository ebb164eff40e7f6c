#pragma once

#include <string_view>

namespace dptrain {

/// Columns of a terminal that `text`, in UTF-8, takes: two for each character of Chinese, Japanese or Korean, none for
/// a mark that stands on the character before it. By the C library's C.UTF-8 locale; one for each character without
/// that.
int display_width(std::string_view text);

/// The longest beginning of `text` that takes at most `columns`, whole characters with the marks on them.
std::string_view display_prefix(std::string_view text, int columns);

}  // namespace dptrain
