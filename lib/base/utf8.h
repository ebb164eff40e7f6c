#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dptrain {

/// The code point that begins at `at`, which is before the text's end and is moved behind it; nothing, and `at` as it
/// was, where the bytes there aren't UTF-8 (RFC 3629): no character in more bytes than it needs, no half of UTF-16's
/// pairs, none over U+10FFFF.
std::optional<uint32_t> next_code_point(std::string_view text, size_t& at);

}  // namespace dptrain
