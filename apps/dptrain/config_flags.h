#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/config_node.h"

namespace dptrain::app {

/// What flags that every command has mean in one of them.
struct FlagHelp {
  const char* out = "takes no part in this command, which writes no files";
  const char* json = "print one JSON document on stdout; everything else goes to stderr";
  const char* progress = "takes no part in this command, which shows none";
};

/// Of commands that train.
inline constexpr const char* kProgressHelp =
    "within an epoch and its evaluation: auto (a line that is written over on a terminal, else plain), plain (a line "
    "every ten seconds), none";

/// Whether --config finds a YAML file of this name, or path.
bool is_known_config(const std::string& name);

/// The JSON Schema of configurations.
std::string experiment_schema();
/// Whether a configuration has such a key at its top.
bool is_config_key(const std::string& key);

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
  /// The configuration file with all overrides in it. Throws 66, saying where it was looked for.
  ConfigNode load() const { return load(config); }
  /// Prints what a command has found as --json and --quiet want it.
  void print(const std::string& document, const std::string& text) const;
  /// Another file, with the same overrides.
  ConfigNode load(const std::string& name) const;
  /// The file's name without its ending: the run's name by default. Throws 66, saying where it was looked for.
  std::string default_name() const { return default_name(config); }
  static std::string default_name(const std::string& name);
};

}  // namespace dptrain::app
