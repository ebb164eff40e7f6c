#include "base/error.h"

#include <fmt/format.h>

#include <utility>

namespace dptrain {
namespace {

/// Escapes control characters. A user's text may contain line breaks, but a sentence is one line.
std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      line += "\\n";
    else if (c == '\t')
      line += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      line += fmt::format("\\x{:02x}", byte);
    else
      line += c;
  }
  return line;
}

std::vector<std::string> in_a_line_each(std::vector<std::string> sentences) {
  for (std::string& sentence : sentences) sentence = in_one_line(sentence);
  return sentences;
}

std::string headline(const std::vector<std::string>& lines) {
  if (lines.size() < 2) return lines.empty() ? std::string() : lines.front();
  return fmt::format("{} (and {} more)", lines.front(), lines.size() - 1);
}

}  // namespace

std::string Mistake::sentence() const {
  std::string text = where;
  if (!expected.empty()) text += (text.empty() ? "" : ": ") + expected;
  if (!got.empty()) text += ", got " + got;
  if (!advice.empty()) text += "; " + advice;
  return text;
}

Error::Error(ExitCode code, const std::string& sentence) : Error(code, std::vector<std::string>{sentence}) {}

Error::Error(ExitCode code, const Mistake& mistake) : Error(code, mistake.sentence()) {
  says_where_ = !mistake.where.empty();
}

Error::Error(ExitCode code, std::vector<std::string> lines)
    : std::runtime_error(headline(in_a_line_each(lines))), code_(code), lines_(in_a_line_each(std::move(lines))) {}

}  // namespace dptrain
