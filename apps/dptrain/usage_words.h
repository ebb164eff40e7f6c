#pragma once

#include <string>

namespace dptrain::app {

/// Rewrites CLI11's message about a command line as this program words it: what was expected and what was found.
/// Messages that it doesn't know stay unchanged.
std::string usage_words(const std::string& said);

}  // namespace dptrain::app
