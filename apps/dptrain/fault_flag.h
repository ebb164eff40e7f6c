#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "parallel/injected_fault.h"

namespace dptrain::app {

/// Adds `--fault`, which may be repeated. A value that can't be parsed ends the program with exit code 64.
void add_fault_flag(CLI::App& command, std::vector<parallel::InjectedFault>& faults, const std::string& help);

/// Faults as text, in the form in which processes of a job send them to each other.
std::string faults_text(const std::vector<parallel::InjectedFault>& faults);

}  // namespace dptrain::app
