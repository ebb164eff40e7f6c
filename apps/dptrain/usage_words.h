#pragma once

#include <string>

namespace dptrain::app {

/// What CLI11 says of a command line's mistake, as this program says what it expected and got; what isn't known here
/// stays as it is.
std::string usage_words(const std::string& said);

}  // namespace dptrain::app
