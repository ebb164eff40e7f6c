#pragma once

#include <string>

// What options check of a value, beside what CLI11 has for it: what is wrong with it, or nothing.

namespace dptrain::app {

/// An empty variable of a script is a mistake, not a wish for the default.
std::string refuse_empty(const std::string& text);

/// What CLI::Range lets pass.
std::string refuse_nan(const std::string& text);

}  // namespace dptrain::app
