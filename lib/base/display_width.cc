#include "base/display_width.h"

#include <clocale>
#include <cwchar>

namespace dptrain {
namespace {

/// Sets the C.UTF-8 locale for the calling thread while it lives.
class Utf8Locale {
 public:
  Utf8Locale() : before_(locale() ? uselocale(locale()) : locale_t{}) {}
  ~Utf8Locale() {
    if (before_) uselocale(before_);
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

  bool is_there() const { return before_ != locale_t{}; }

 private:
  static locale_t locale() {
    static const locale_t of_process = newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{});
    return of_process;
  }

  locale_t before_;
};

struct Character {
  size_t bytes;
  int columns;
};

/// The first character of `text`, which must not be empty.
Character first_character(std::string_view text, const Utf8Locale& locale) {
  if (!locale.is_there()) {
    size_t bytes = 1;
    while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) ++bytes;
    return {.bytes = bytes, .columns = 1};
  }
  std::mbstate_t state{};
  wchar_t decoded = 0;
  const size_t bytes = std::mbrtowc(&decoded, text.data(), text.size(), &state);
  // Terminals differ for bytes that aren't UTF-8, NULs and control characters. They count as one column each.
  if (bytes == 0 || bytes > text.size()) return {.bytes = 1, .columns = 1};
  const int columns = wcwidth(decoded);
  return {.bytes = bytes, .columns = columns < 0 ? 1 : columns};
}

}  // namespace

int display_width(std::string_view text) {
  const Utf8Locale locale;
  int columns = 0;
  while (!text.empty()) {
    const Character character = first_character(text, locale);
    columns += character.columns;
    text.remove_prefix(character.bytes);
  }
  return columns;
}

std::string_view display_prefix(std::string_view text, int columns) {
  const Utf8Locale locale;
  size_t bytes = 0;
  while (bytes < text.size()) {
    const Character character = first_character(text.substr(bytes), locale);
    columns -= character.columns;
    if (columns < 0) break;
    bytes += character.bytes;
  }
  return text.substr(0, bytes);
}

}  // namespace dptrain
