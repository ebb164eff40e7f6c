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
#include "base/nearest_name.h"
#include "comm/job.h"
#include "comm/join_marks.h"
#include "commands.h"
#include "config_flags.h"
#include "help_format.h"
#include "host_heap.h"
#include "openmp_restart.h"
#include "output.h"
#include "program.h"
#include "usage_words.h"

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
  note_end_before_joining();
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

/// Advice for a word in place of a command, or for one without a flag: "write --config a.yaml" for a configuration; ""
/// for other words.
std::string config_advice(const std::string& word) {
  const bool is_file = word.ends_with(".yaml") || word.ends_with(".yml");
  return is_file || is_known_config(word) ? "write --config " + word : "";
}

/// Advice for a configuration key that is used as a flag, --batch_size 32, and for a key and value that --set hasn't
/// joined, `--set batch_size 32` or `--set batch_size = 32`: "write --set batch_size=32".
std::string key_advice(const CLI::App& command, const std::vector<std::string>& unknown) {
  const std::string& first = unknown[0];
  for (const std::string& set : command.get_option("--set")->results())
    if (set.find('=') == std::string::npos)
      return fmt::format("write --set {}={}", set, first == "=" && unknown.size() > 1 ? unknown[1] : first);
  if (!first.starts_with("--")) return "";
  const size_t equals = std::min(first.find('='), first.size());
  std::string key = first.substr(2, equals - 2);
  std::ranges::replace(key, '-', '_');
  if (!is_config_key(key)) return "";
  if (key == "links")
    return "the key links takes the links themselves: --set 'links={gbps: 1}'; files are for dptrain plan";
  const std::string value = equals < first.size() ? first.substr(equals + 1)
                            : unknown.size() > 1  ? unknown[1]
                                                  : "VALUE";
  return fmt::format("write --set {}={}", key, value);
}

/// Advice for a value of --set that the shell has split at its spaces, `--set split=[3, 1]`; "" for other arguments.
std::string quoting_advice(const CLI::App& command, const std::vector<std::string>& unknown) {
  const CLI::Option* sets = command.get_option_no_throw("--set");
  const bool has_end =
      std::ranges::any_of(unknown, [](const std::string& word) { return word.ends_with('}') || word.ends_with(']'); });
  if (sets == nullptr || !has_end) return "";
  const auto brackets = [](const std::string& text, std::string_view kinds) {
    return std::ranges::count_if(text, [&](char c) { return kinds.find(c) != std::string_view::npos; });
  };
  for (const std::string& set : sets->results())
    if (set.ends_with('=') || brackets(set, "{[") > brackets(set, "}]"))
      return fmt::format("put the value of --set in quotes: --set '{}...'", set.substr(0, set.find('=') + 1));
  return "";
}

/// The message for a positional argument that is missing; "" if CLI11's message is about something else.
std::string missing_positional(const CLI::App& command, const std::string& said) {
  constexpr std::string_view kMissing = " is required", kExample = "Example: ";
  if (!said.ends_with(kMissing)) return "";
  const CLI::Option* missing = command.get_option_no_throw(said.substr(0, said.size() - kMissing.size()));
  const std::string footer = command.get_footer();
  if (missing == nullptr || !missing->get_positional() || !footer.starts_with(kExample)) return "";
  return fmt::format("{}: expected {}{}, got nothing; write for instance {}", command.get_name(),
                     missing->get_type_name(), missing->get_expected_max() > 1 ? " ..." : "",
                     footer.substr(kExample.size()));
}

bool is_command(const std::string& word) {
  return std::ranges::any_of(kCommands, [&](const Command& command) { return word == command.name; });
}

void require_known_command(const std::string& name) {
  if (name.starts_with("-") || is_command(name)) return;
  std::vector<std::string> known;
  for (const Command& command : kCommands) known.emplace_back(command.name);
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

/// The named command and its full name, such as "dptrain bench comm".
std::pair<std::string, const CLI::App*> named_command(const CLI::App& program) {
  std::pair<std::string, const CLI::App*> named = {"dptrain", &program};
  while (!named.second->get_subcommands().empty()) {
    named.second = named.second->get_subcommands().front();
    named.first += " " + named.second->get_name();
  }
  return named;
}

/// The message for a wrong command line. An unknown argument is reported first: a user who writes --confg hasn't
/// forgotten --config.
std::string usage_mistake(const CLI::App& program, const CLI::ParseError& error) {
  if (program.get_subcommands().empty())
    return "expected a command or --config FILE, got none; begin with dptrain --config lenet_ddp_2cpu, or see dptrain "
           "--help";
  const auto [name, command] = named_command(program);
  const std::vector<std::string> unknown = command->remaining();
  if (unknown.empty()) {
    const std::string missing = missing_positional(*command, error.what());
    return missing.empty() ? fmt::format("{}; see {} --help", usage_words(error.what()), name) : missing;
  }
  if (is_command(unknown[0])) return fmt::format("the command goes first: dptrain {} ...", unknown[0]);
  std::vector<std::string> commands;
  for (const CLI::App* inner : command->get_subcommands({})) commands.push_back(inner->get_name());
  if (!commands.empty() && !unknown[0].starts_with("-"))
    return fmt::format("'{}' is not a command of {}; {}", unknown[0], name, suggestion(unknown[0], commands));
  std::vector<std::string> known;
  for (const CLI::Option* option : command->get_options())
    for (const std::string& flag : option->get_lnames()) known.push_back("--" + flag);
  const std::string near = nearest_name(unknown[0], known);
  const bool takes_config = std::ranges::find(known, "--config") != known.end();
  std::string advice = quoting_advice(*command, unknown);
  if (advice.empty() && takes_config) advice = config_advice(unknown[0]);
  if (advice.empty() && takes_config && near.empty()) advice = key_advice(*command, unknown);
  if (advice.empty())
    advice =
        near.empty() ? fmt::format("{} --help shows its arguments", name) : fmt::format("did you mean '{}'?", near);
  return fmt::format("'{}' is not an argument of {}; {}", unknown[0], name, advice);
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
  if (!arguments.empty()) require_known_command(arguments[0]);
  if (!arguments.empty()) require_one_process(arguments);
  require_checkpoint_in_resume(arguments);
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
