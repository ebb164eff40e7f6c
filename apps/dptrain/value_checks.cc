#include "value_checks.h"

#include <cmath>
#include <cstdlib>

namespace dptrain::app {

std::string refuse_empty(const std::string& text) { return text.empty() ? "needs a value, got ''" : ""; }

std::string refuse_nan(const std::string& text) {
  return std::isnan(std::strtod(text.c_str(), nullptr)) ? "expected a number, got " + text : "";
}

}  // namespace dptrain::app
