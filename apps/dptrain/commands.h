#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace dptrain::app {

/// Runs a command whose flags have been parsed. Returns the exit code; throws Error if the command fails.
using Run = std::function<int()>;

// Each function adds its command's flags to `command` and returns the function that runs the command.
Run add_train_command(CLI::App& command);
Run add_eval_command(CLI::App& command);
Run add_predict_command(CLI::App& command);
Run add_compare_command(CLI::App& command);
Run add_verify_command(CLI::App& command);
Run add_bless_command(CLI::App& command);
Run add_gate_command(CLI::App& command);
Run add_plan_command(CLI::App& command);
Run add_table_command(CLI::App& command);
Run add_report_command(CLI::App& command);
Run add_hash_command(CLI::App& command);
Run add_bench_command(CLI::App& command);
Run add_bench_ops_command(CLI::App& command);
Run add_devices_command(CLI::App& command);
Run add_schema_command(CLI::App& command);

}  // namespace dptrain::app
