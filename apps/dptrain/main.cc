#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "as_error.h"
#include "base/error.h"
#include "base/line_mark.h"
#include "comm/job.h"
#include "comm/join_marks.h"
#include "command_line_checks.h"
#include "commands.h"
#include "help_format.h"
#include "host_heap.h"
#include "openmp_restart.h"
#include "output.h"
#include "program.h"
#include "usage_mistake.h"

namespace dptrain::app {
namespace {

struct Command {
  const char* name;
  const char* help;
  const char* example;  ///< shown at the end of its --help
  Run (*add)(CLI::App&);
};

/// The table of commands. The default command is `train`.
constexpr std::array<Command, 14> kCommands = {{
    {"train", "run an experiment (also: dptrain --config FILE)", "dptrain --config lenet_ddp_2cpu", add_train_command},
    {"eval", "print loss and accuracy of a checkpoint on the test split",
     "dptrain eval --config lenet_ddp_2cpu --checkpoint runs/lenet_ddp_2cpu", add_eval_command},
    {"predict", "print the classes of images by a checkpoint, one JSON line per image",
     "dptrain predict --config my.yaml --checkpoint runs/my --input four.png", add_predict_command},
    {"compare", "train several configurations, or one under several strategies, and compare them",
     "dptrain compare --config lenet_ddp_2cpu --strategies single,ddp", add_compare_command},
    {"verify", "compare every strategy that fits the devices with single, layer by layer",
     "dptrain verify --config lenet_ddp_2cpu", add_verify_command},
    {"bless", "train an experiment's first steps and write their results, for gate",
     "dptrain bless --config lenet_ddp_2cpu -o lenet.json", add_bless_command},
    {"gate", "train the first steps again and compare them with what bless has written",
     "dptrain gate lenet.json --config lenet_ddp_2cpu", add_gate_command},
    {"plan", "print memory, operators, messages and time of a step before it is run, or a model's layers",
     "dptrain plan --config resnet18_2gpu --devices 2xh200", add_plan_command},
    {"table", "print a table of runs, finished or running, and of the keys in which they differ", "dptrain table runs",
     add_table_command},
    {"report", "write a page of curves and tables of runs, finished or running", "dptrain report runs -o report.html",
     add_report_command},
    {"hash", "print the hash of a checkpoint's weights: equal for equal bits", "dptrain hash runs/lenet_ddp_2cpu",
     add_hash_command},
    {"bench", "measure this machine's devices", "dptrain bench comm --devices cpu:0-1", add_bench_command},
    {"devices", "print what this machine has to train on", "dptrain devices", add_devices_command},
    {"schema", "print the JSON Schema of the configuration", "dptrain schema > dptrain.schema.json",
     add_schema_command},
}};

std::string version_text() {
  const std::vector<std::string> absent = parts_absent();
  return fmt::format("dptrain {} ({})\nwith: {}\nwithout: {}\nbuilt by: {}", version(), git_commit(),
                     fmt::join(parts_present(), ", "),
                     absent.empty() ? "nothing" : fmt::format("{}", fmt::join(absent, ", ")), built_by());
}

int report(ExitCode code, const std::vector<std::string>& lines, const std::string& last) {
  if (lines.size() > 1)
    for (const std::string& line : lines) write_message(fmt::format("dptrain: {}\n", line));
  write_message(fmt::format("dptrain: {}\n", last));
  tell_launcher_of_exit(static_cast<int>(code), last);
  note_end_before_joining(static_cast<int>(code));
  return static_cast<int>(code);
}

/// The arguments, with `train` inserted if they name no command.
std::vector<std::string> with_command(int count, char** values) {
  std::vector<std::string> arguments(values + 1, values + count);
  const bool top_level =
      arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "--version";
  if (!top_level && arguments[0].starts_with("-")) arguments.insert(arguments.begin(), "train");
  return arguments;
}

int run(int count, char** values) {
  CLI::App program("Trains neural networks under a parallel strategy of your choice.");
  program.name("dptrain");
  program.formatter(help_format());
  program.set_version_flag("--version", version_text);  // computed only when it is printed
  program.require_subcommand(1);
  program.footer("Begin with: dptrain --config lenet_ddp_2cpu");
  int code = 0;
  for (const Command& command : kCommands) {
    CLI::App* subcommand = program.add_subcommand(command.name, command.help);
    subcommand->footer(std::string("Example: ") + command.example);
    subcommand->callback([&code, run = command.add(*subcommand)] { code = run(); });
  }
  auto arguments = with_command(count, values);
  check_command_line(program, arguments);
  std::ranges::reverse(arguments);  // CLI11 takes them in reverse order
  try {
    program.parse(arguments);
  } catch (const CLI::Success& success) {
    std::ostringstream text;
    const int exit_code = program.exit(success, text, text);
    write_output(text.str());
    return exit_code;
  } catch (const CLI::ParseError& error) {
    throw Error(ExitCode::usage, usage_mistake(program, error));
  }
  return code;
}

}  // namespace
}  // namespace dptrain::app

int main(int count, char** values) {
  using namespace dptrain::app;
  prepare_standard_streams();
  restart_with_openmp_environment(values);
  give_large_blocks_back();
  dptrain::mark_lines_as_of_process(dptrain::launched_process());
  try {
    return run(count, values);
  } catch (const std::exception& exception) {
    const dptrain::Error error = as_error(exception);
    return report(error.code(), error.lines(), error.what());
  }
}
