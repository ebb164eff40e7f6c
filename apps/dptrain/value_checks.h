#pragma once

#include <string>

// Checks of option values that CLI11 doesn't have. Each returns what is wrong with the value, or "".

namespace dptrain::app {

/// Refuses an empty text: an empty script variable is a mistake, not a wish for the default.
std::string refuse_empty(const std::string& text);

/// Refuses NaN, which CLI::Range accepts.
std::string refuse_nan(const std::string& text);

}  // namespace dptrain::app
