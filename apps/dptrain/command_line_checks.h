#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace dptrain::app {

/// Refuses, with exit code 64, command lines that CLI11 would take or would refuse in words of its own. `arguments`
/// begins with the command's name. Reports the first of these mistakes:
///   - a word that is no command,
///   - a command of one process that a launcher has started several times,
///   - `--resume` with an empty checkpoint,
///   - an option in place of another option's value, `--out --quiet`.
void check_command_line(const CLI::App& program, const std::vector<std::string>& arguments);

}  // namespace dptrain::app
