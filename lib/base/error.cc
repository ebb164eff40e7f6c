#include "base/error.h"

#include <fmt/format.h>

#include <utility>

namespace dptrain {
namespace {

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

Error::Error(ExitCode code, const Mistake& mistake) : Error(code, mistake.sentence()) {}

Error::Error(ExitCode code, std::vector<std::string> lines)
    : std::runtime_error(headline(lines)), code_(code), lines_(std::move(lines)) {}

}  // namespace dptrain
