#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "parallel/injected_fault.h"

namespace dptrain::app {

/// Adds `--fault`, which may be repeated. What can't be read ends the program with 64.
void add_fault_flag(CLI::App& command, std::vector<parallel::InjectedFault>& faults, const std::string& help);

/// How processes of a job tell each other of them.
std::string faults_text(const std::vector<parallel::InjectedFault>& faults);

}  // namespace dptrain::app
