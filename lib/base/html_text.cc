#include "base/html_text.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/utf8.h"

namespace dptrain {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

bool is_control(uint32_t code) {
  return (code < 0x20 && code != '\t' && code != '\n') || (code >= 0x7F && code < 0xA0);
}

std::string_view escape_of(char c) {
  switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return {};
  }
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string escaped;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const std::optional<uint32_t> code = next_code_point(text, at);
    if (!code) ++at;
    if (!code || is_control(*code))
      escaped += kReplacement;
    else if (const std::string_view escape = escape_of(text[begin]); !escape.empty())
      escaped += escape;
    else
      escaped += text.substr(begin, at - begin);
  }
  return escaped;
}

}  // namespace dptrain
