#pragma once

#include <string_view>

namespace dptrain {

/// How many columns of a terminal `text`, in UTF-8, takes. A Chinese, Japanese or Korean character takes two, and a
/// mark combined with the character before it none. The C library's C.UTF-8 locale decides; without it each character
/// takes one.
int display_width(std::string_view text);

/// The longest beginning of `text` that takes at most `columns`. Characters stay whole, together with their marks.
std::string_view display_prefix(std::string_view text, int columns);

}  // namespace dptrain
