#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace dptrain::app {

/// Formats help in lines that fit the terminal behind stdout.
std::shared_ptr<CLI::FormatterBase> help_format();

}  // namespace dptrain::app
