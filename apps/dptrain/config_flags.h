#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/config_node.h"

namespace dptrain::app {

/// Help texts of the flags that every command has, where their meaning differs between commands.
struct FlagHelp {
  const char* out = "has no effect in this command, which writes no files";
  const char* json = "print one JSON document on stdout; everything else goes to stderr";
  const char* progress = "has no effect in this command, which shows none";
};

/// Help of --progress for commands that train.
inline constexpr const char* kProgressHelp =
    "within an epoch and its evaluation: auto (a line that is written over on a terminal, else plain), plain (a line "
    "every ten seconds), none";

/// Whether --config finds a YAML file by this name or path.
bool is_known_config(const std::string& name);

/// The JSON Schema of configurations.
std::string experiment_schema();
/// The key of a configuration's top level that `word` is or most likely means; "" if there is none.
std::string meant_config_key(const std::string& word);

/// The flags of every command that takes a configuration.
struct ConfigFlags {
  std::string config;
  std::vector<std::string> overrides;
  std::optional<std::string> devices;
  std::optional<std::string> out;
  bool dump_config = false;
  bool quiet = false;
  bool json = false;
  std::string progress = "auto";

  /// Returns the option --config, which is required unless told otherwise.
  CLI::Option* add_to(CLI::App& command, const FlagHelp& help = {});
  /// The configuration file with all overrides applied. Throws 66 and lists the places that were searched.
  ConfigNode load() const { return load(config); }
  /// Prints a command's result in the form that --json and --quiet ask for.
  void print(const std::string& document, const std::string& text) const;
  /// Loads another file with the same overrides.
  ConfigNode load(const std::string& name) const;
  /// The file's name without its extension, which is the run's default name. Throws 66 and lists the places that were
  /// searched.
  std::string default_name() const { return default_name(config); }
  static std::string default_name(const std::string& name);
};

}  // namespace dptrain::app
