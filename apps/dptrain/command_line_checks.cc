#include "command_line_checks.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest_name.h"
#include "comm/job.h"
#include "usage_mistake.h"

namespace dptrain::app {
namespace {

void require_known_command(const CLI::App& program, const std::string& name) {
  if (name.starts_with("-") || command_named(program, name) != nullptr) return;
  std::vector<std::string> known;
  for (const CLI::App* command : program.get_subcommands({})) known.push_back(command->get_name());
  const std::string advice = name == "help" ? "write dptrain --help" : config_advice(name);
  throw Error(ExitCode::usage,
              fmt::format("'{}' is not a command; {}", name, advice.empty() ? suggestion(name, known) : advice));
}

/// Throws 64 if a launcher has started several processes: each would do the same and write the same files. Only `train`
/// and `bench comm` run as one job.
void require_one_process(const std::vector<std::string>& arguments) {
  const std::string& command = arguments[0];
  const bool is_job = command == "train" || (command == "bench" && arguments.size() > 1 && arguments[1] == "comm");
  if (is_job || command.starts_with("-") || launched_processes() == 1) return;
  throw Error(ExitCode::usage,
              fmt::format("dptrain {} runs in one process, but a launcher has started {}; start it without mpirun",
                          command == "bench" && arguments.size() > 1 ? "bench " + arguments[1] : command,
                          launched_processes()));
}

/// Refuses an empty checkpoint, which CLI11 takes for --resume without one: an empty script variable is no wish to
/// train anew.
void require_checkpoint_in_resume(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i] == "--resume=" ||
        (arguments[i] == "--resume" && i + 1 < arguments.size() && arguments[i + 1].empty()))
      throw Error(ExitCode::usage, "--resume: expected a checkpoint or nothing after it, got ''");
}

/// Refuses an option in place of a value. CLI11 would take it: `--out --quiet` would name a folder.
void require_values_of_options(const CLI::App& program, const std::vector<std::string>& arguments) {
  const CLI::App* command = &program;
  std::string name = program.get_name();
  size_t i = 0;
  for (; i < arguments.size(); ++i) {
    const CLI::App* inner = command_named(*command, arguments[i]);
    if (inner == nullptr) break;
    command = inner;
    name += " " + inner->get_name();
  }
  const auto option_of = [&](const std::string& word) -> const CLI::Option* {
    return word.starts_with("-") ? command->get_option_no_throw(word.substr(0, word.find('='))) : nullptr;
  };
  for (; i + 1 < arguments.size() && arguments[i] != "--"; ++i) {
    const CLI::Option* option = arguments[i].find('=') == std::string::npos ? option_of(arguments[i]) : nullptr;
    if (option == nullptr || option->get_items_expected_min() == 0) continue;
    const std::string& value = arguments[++i];
    if (option_of(value) != nullptr)
      throw Error(ExitCode::usage, fmt::format("{}: expected {}, got the option {}; see {} --help", arguments[i - 1],
                                               option->get_type_name(), value, name));
  }
}

}  // namespace

void check_command_line(const CLI::App& program, const std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  require_known_command(program, arguments[0]);
  require_one_process(arguments);
  require_checkpoint_in_resume(arguments);
  require_values_of_options(program, arguments);
}

}  // namespace dptrain::app
