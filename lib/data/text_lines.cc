#include "data/text_lines.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "data/plain_or_gzip_file.h"

namespace dptrain {
namespace {

/// Whether a character is invisible: one that the tokenizer's normalization (nmt_nfkc) turns into a space or drops, and
/// neighboring code points of the same kinds.
bool is_blank(uint32_t code) {
  return code <= 0x20 || (code >= 0x7f && code <= 0xa0) || code == 0x1680 || (code >= 0x2000 && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202f) || code == 0x205f || code == 0x2581 || code == 0x3000 || code == 0xfeff ||
         code == 0xfffd;
}

bool is_blank(std::string_view line) {
  for (size_t at = 0; at < line.size();) {
    const std::optional<uint32_t> code = next_code_point(line, at);
    DPTRAIN_CHECK(code, "a line that isn't UTF-8");
    if (!is_blank(*code)) return false;
  }
  return true;
}

[[noreturn]] void refuse_at(const std::string& where, std::string expected, std::string got, std::string advice) {
  throw Error(
      ExitCode::bad_data,
      Mistake{.where = where, .expected = std::move(expected), .got = std::move(got), .advice = std::move(advice)});
}

constexpr const char* kGiveLines = "give a file with one sentence or verse per line";

/// Far more than a sentence has: a file with longer lines isn't text in lines.
constexpr size_t kMostLineBytes = size_t{1} << 20;

/// Takes the content of a file in pieces and appends its lines.
class LineSplitter {
 public:
  LineSplitter(std::string file, TextLines& lines) : file_(std::move(file)), lines_(lines) {}

  void take(std::string_view piece) {
    for (size_t end; (end = piece.find('\n')) != std::string_view::npos; piece.remove_prefix(end + 1)) {
      extend(piece.substr(0, end));
      finish_line();
    }
    extend(piece);
  }

  /// Ends a file. The text after the last line feed is a line too.
  void finish_file() { finish_line(); }

 private:
  void extend(std::string_view piece) {
    line_ += piece;
    if (line_.size() > kMostLineBytes)
      refuse(fmt::format("expected lines of at most {} bytes", kMostLineBytes), "more", kGiveLines);
  }

  void finish_line() {
    std::string_view line = line_;
    if (number_ == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
    if (line.ends_with('\r')) line.remove_suffix(1);
    check(line);
    lines_.append(line);
    line_.clear();
    ++number_;
  }

  void check(std::string_view line) const {
    for (size_t at = 0; at < line.size();) {
      const size_t before = at;
      const std::optional<uint32_t> code = next_code_point(line, at);
      if (code && *code != 0) continue;
      refuse(
          "expected UTF-8 text",
          fmt::format("the byte 0x{:02x} at position {} of the line", static_cast<uint8_t>(line[before]), before + 1),
          "give a text file that is saved as UTF-8");
    }
  }

  [[noreturn]] void refuse(std::string expected, std::string got, std::string advice) const {
    refuse_at(fmt::format("{}:{}", file_, number_), std::move(expected), std::move(got), std::move(advice));
  }

  std::string file_;
  TextLines& lines_;
  int64_t number_ = 1;  ///< number of the current line
  std::string line_;    ///< the current line as far as it has been read
};

}  // namespace

std::string_view TextLines::operator[](int64_t index) const {
  DPTRAIN_CHECK(index >= 0 && index < count(), "line {} of {}", index, count());
  const size_t begin = begins_[static_cast<size_t>(index)];
  return std::string_view(text_).substr(begin, begins_[static_cast<size_t>(index) + 1] - begin);
}

void TextLines::append(std::string_view line) {
  if (is_blank(line)) return;
  text_ += line;
  begins_.push_back(text_.size());
}

TextLines read_text_lines(std::span<const std::filesystem::path> files, int64_t limit_bytes) {
  TextLines lines;
  int64_t left = limit_bytes;
  for (const auto& path : files) {
    PlainOrGzipFile file(path);
    LineSplitter splitter(path.string(), lines);
    const int64_t before = lines.count();
    std::string piece(size_t{64} << 10, '\0');
    while (const size_t got = file.read(std::span(reinterpret_cast<uint8_t*>(piece.data()), piece.size()))) {
      left -= static_cast<int64_t>(got);
      if (left < 0)
        refuse_at(path.string(), fmt::format("expected at most {} bytes of text in all files together", limit_bytes),
                  "more", "give only a part of the text");
      splitter.take(std::string_view(piece).substr(0, got));
    }
    splitter.finish_file();
    if (lines.count() == before)
      refuse_at(path.string(), "expected lines of text", "none, or only blank ones", kGiveLines);
  }
  return lines;
}

}  // namespace dptrain
