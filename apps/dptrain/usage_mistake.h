#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace dptrain::app {

/// The command of this name within `outer`; null if there is none.
const CLI::App* command_named(const CLI::App& outer, const std::string& name);

/// The message for a command line that CLI11 has refused. An unknown argument is reported first: a user who writes
/// --confg hasn't forgotten --config.
std::string usage_mistake(const CLI::App& program, const CLI::ParseError& error);

/// Advice for a word in place of a command, or for one without a flag: "write --config a.yaml" for a configuration; ""
/// for other words.
std::string config_advice(const std::string& word);

}  // namespace dptrain::app
