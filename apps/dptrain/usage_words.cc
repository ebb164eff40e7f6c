#include "usage_words.h"

#include <array>
#include <regex>

namespace dptrain::app {
namespace {

struct Wording {
  const char* said;  ///< a regular expression that must match the whole message
  const char* ours;
};

constexpr std::array kWordings = {
    // CLI11 writes fractions with six digits, and zeros at their end are left out.
    Wording{"(.+): Value (.*) not in range (-?[0-9]+(?:\\.[0-9]*[1-9])?)(?:\\.?0+)? to "
            "(-?[0-9]+(?:\\.[0-9]*[1-9])?)(?:\\.?0+)?",
            "$1: expected a number from $3 to $4, got '$2'"},
    Wording{"(.+): (.*) not in \\{(.+)\\}", "$1: expected one of $3, got '$2'"},
    Wording{"(.+): At Most 1 required but received ([0-9]+)", "$1: expected once, got it $2 times"},
    Wording{"(.+): 1 required (.+) missing", "$1: expected $2, got nothing"},
    Wording{"A subcommand is required", "expected one of its commands, got none"},
};

}  // namespace

std::string usage_words(const std::string& said) {
  for (const Wording& wording : kWordings) {
    std::smatch match;
    if (std::regex_match(said, match, std::regex(wording.said))) return match.format(wording.ours);
  }
  return said;
}

}  // namespace dptrain::app
