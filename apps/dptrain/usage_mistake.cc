#include "usage_mistake.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nearest_name.h"
#include "config_flags.h"
#include "usage_words.h"

namespace dptrain::app {
namespace {

/// How many characters of `text` are among `kinds`.
auto count_among(const std::string& text, std::string_view kinds) {
  return std::ranges::count_if(text, [&](char c) { return kinds.find(c) != std::string_view::npos; });
}

/// Advice for a key of the configuration that is used as a flag, --batch_size 32, or stands without --set, epochs=3,
/// and for a key and value that --set hasn't joined, `--set batch_size 32` or `--set batch_size = 32`: "write --set
/// batch_size=32".
std::string key_advice(const CLI::App& command, const std::vector<std::string>& unknown) {
  const std::string& first = unknown[0];
  for (const std::string& set : command.get_option("--set")->results())
    if (set.find('=') == std::string::npos)
      return fmt::format("write --set {}={}", set, first == "=" && unknown.size() > 1 ? unknown[1] : first);
  const bool is_flag = first.starts_with("--");
  const size_t equals = first.find('=');
  if (!is_flag && equals == std::string::npos) return "";
  const size_t begin = is_flag ? 2 : 0, end = std::min(first.find_first_of(".[=", begin), first.size());
  std::string word = first.substr(begin, end - begin);
  std::ranges::replace(word, '-', '_');
  const std::string key = meant_config_key(word);
  if (key.empty()) return "";
  if (key == "links")
    return "the key links takes the links themselves: --set 'links={gbps: 1}'; files are for dptrain plan";
  const std::string inner = first.substr(end, equals == std::string::npos ? equals : equals - end);
  const std::string value = equals != std::string::npos ? first.substr(equals + 1)
                            : unknown.size() > 1        ? unknown[1]
                                                        : "VALUE";
  const std::string assignment = fmt::format("{}{}={}", key, inner, value);
  if (count_among(assignment, "{[") > count_among(assignment, "}]"))  // the shell has split it at a space
    return fmt::format("put the value of --set in quotes: --set '{}{}=...'", key, inner);
  const bool is_plain = assignment.find_first_of(" []{}()<>*?$&|;#~\"`\\!") == std::string::npos;
  return fmt::format("write --set {0}{1}{0}", is_plain ? "" : "'", assignment);
}

/// Advice for a value of --set that the shell has split at its spaces, `--set split=[3, 1]`; "" for other arguments.
std::string quoting_advice(const CLI::App& command, const std::vector<std::string>& unknown) {
  const CLI::Option* sets = command.get_option_no_throw("--set");
  const bool has_end =
      std::ranges::any_of(unknown, [](const std::string& word) { return word.ends_with('}') || word.ends_with(']'); });
  if (sets == nullptr || !has_end) return "";
  for (const std::string& set : sets->results())
    if (set.ends_with('=') || count_among(set, "{[") > count_among(set, "}]"))
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

/// The named command and its full name, such as "dptrain bench comm".
std::pair<std::string, const CLI::App*> named_command(const CLI::App& program) {
  std::pair<std::string, const CLI::App*> named = {"dptrain", &program};
  while (!named.second->get_subcommands().empty()) {
    named.second = named.second->get_subcommands().front();
    named.first += " " + named.second->get_name();
  }
  return named;
}

}  // namespace

const CLI::App* command_named(const CLI::App& outer, const std::string& name) {
  const auto commands = outer.get_subcommands({});
  const auto found = std::ranges::find(commands, name, [](const CLI::App* command) { return command->get_name(); });
  return found != commands.end() ? *found : nullptr;
}

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
  if (command_named(program, unknown[0]) != nullptr)
    return fmt::format("the command goes first: dptrain {} ...", unknown[0]);
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
  if (command->get_name() == "gate" && unknown[0].starts_with("--steps"))
    advice = "it trains as many steps as dptrain bless --steps has blessed";
  if (advice.empty() && takes_config) advice = config_advice(unknown[0]);
  if (advice.empty() && takes_config && near.empty()) advice = key_advice(*command, unknown);
  if (advice.empty())
    advice =
        near.empty() ? fmt::format("{} --help shows its arguments", name) : fmt::format("did you mean '{}'?", near);
  return fmt::format("'{}' is not an argument of {}; {}", unknown[0], name, advice);
}

std::string config_advice(const std::string& word) {
  const bool is_file = word.ends_with(".yaml") || word.ends_with(".yml");
  return is_file || is_known_config(word) ? "write --config " + word : "";
}

}  // namespace dptrain::app
