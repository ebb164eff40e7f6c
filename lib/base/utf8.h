#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dptrain {

/// Reads the code point that begins at `at`, which must be before the text's end, and moves `at` behind it. Returns
/// nothing and leaves `at` unchanged if the bytes aren't UTF-8 (RFC 3629). Overlong forms, UTF-16 surrogates and values
/// over U+10FFFF aren't UTF-8.
std::optional<uint32_t> next_code_point(std::string_view text, size_t& at);

}  // namespace dptrain
