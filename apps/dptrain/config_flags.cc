#include "config_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/installation.h"
#include "base/lower_case.h"
#include "base/nearest_name.h"
#include "config/config_document.h"
#include "output.h"
#include "train/experiment.h"
#include "value_checks.h"

namespace dptrain::app {
namespace {

namespace fs = std::filesystem;

/// Folders of configurations: "" for the path itself, then those of the source tree and of the installation.
std::vector<fs::path> config_folders() { return {"", DPTRAIN_SOURCE_CONFIGS, installed_data() / "configs"}; }

/// Looks for the name with and without ".yaml"; "" if there is no such file.
fs::path found_config(const std::string& name) {
  std::error_code error;
  for (const fs::path& folder : config_folders())
    for (const char* ending : {"", ".yaml"})
      if (const fs::path candidate = folder / (name + ending); fs::is_regular_file(candidate, error)) return candidate;
  return {};
}

/// A suggestion of names that the user may have meant: up to six names that begin with `name`, those for CPU workers
/// first, or else the name nearest to it: "did you mean 'a', 'b'?". "" if there is none.
std::string config_suggestion(const std::string& name, const std::vector<std::string>& known) {
  constexpr size_t kMost = 6;
  const std::string typed = lower_case(name);
  std::vector<std::string> longer;
  for (const std::string& one : known)
    if (!typed.empty() && lower_case(one).starts_with(typed)) longer.push_back(one);
  std::ranges::sort(longer, {},
                    [](const std::string& one) { return std::pair(one.find("gpu") != std::string::npos, one); });
  const auto again = std::ranges::unique(longer);
  longer.erase(again.begin(), again.end());
  if (longer.size() > kMost) longer.resize(kMost);
  if (!longer.empty()) return fmt::format("did you mean '{}'?", fmt::join(longer, "', '"));
  const std::string near = nearest_name(name, known);
  return near.empty() ? "" : fmt::format("did you mean '{}'?", near);
}

/// Throws 66 with the names that may have been meant, or with the places that were searched.
fs::path find_config(const std::string& name) {
  std::error_code error;
  if (const fs::path found = found_config(name); !found.empty()) return found;
  std::vector<std::string> looked, known;
  for (const fs::path& folder : config_folders()) {
    looked.push_back(folder.empty() ? "the working directory" : folder.string());
    for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error))
      if (entry.path().extension() == ".yaml") known.push_back(entry.path().stem().string());
  }
  if (fs::exists(name, error) && !fs::is_directory(name, error))
    throw Error(
        ExitCode::missing_file,
        Mistake{.where = name,
                .expected = "expected a configuration in a regular file, as paths in it are relative to the file",
                .got = "a pipe or a device",
                .advice = "write it to a file, or change a file's values with --set"});
  if (fs::is_directory(name, error)) {
    const fs::path inside = fs::path(name) / "config.yaml";
    throw Error(ExitCode::missing_file,
                Mistake{.where = name,
                        .expected = "expected a configuration",
                        .got = "a folder",
                        .advice = fs::is_regular_file(inside, error) ? fmt::format("write --config {}", inside.string())
                                                                     : "name a YAML file in it"});
  }
  if (!fs::exists(name, error) && error == std::errc::permission_denied)
    throw Error(ExitCode::missing_file, Mistake{.where = name,
                                                .expected = "expected a configuration",
                                                .got = "a path through a folder that this user may not enter",
                                                .advice = "change the folder's permissions, or name another file"});
  const std::string near = config_suggestion(fs::path(name).stem().string(), known);
  const std::string advice = near.empty() ? fmt::format("looked in {}", fmt::join(looked, ", ")) : near;
  throw Error(ExitCode::missing_file,
              Mistake{.where = name, .expected = "no such configuration", .got = "", .advice = advice});
}

}  // namespace

bool is_known_config(const std::string& name) { return found_config(name).extension() == ".yaml"; }

std::string experiment_schema() {
  return ConfigSession::schema("dptrain experiment", [](ConfigReader& reader) { train::read_experiment(reader, ""); });
}

std::string meant_config_key(const std::string& word) {
  const auto schema = nlohmann::ordered_json::parse(experiment_schema());  // of two near keys, the first one is meant
  std::vector<std::string> keys;
  for (const auto& [key, shape] : schema.at("properties").items()) keys.push_back(key);
  return nearest_name(word, keys);
}

CLI::Option* ConfigFlags::add_to(CLI::App& command, const FlagHelp& help) {
  auto* file = command.add_option("--config", config, "the experiment: a YAML file, or the name of one in configs/")
                   ->required()
                   ->check(refuse_empty)
                   ->type_name("FILE");
  command.add_option("--set", overrides, "overrides one value, with dotted keys and [indices]; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--devices", devices, "where to train: cpu:0-1, cuda:0, auto:2, ...")
      ->check(refuse_empty)
      ->type_name("LIST");
  command.add_option("--out", out, help.out)->check(refuse_empty)->type_name("DIR");
  command.add_flag(
      "--dump-config", dump_config,
      "print the resolved configuration and where each value came from, and stop; with --json the values alone");
  command.add_flag("--quiet", quiet, "print nothing but warnings and errors");
  command.add_flag("--json", json, help.json);
  command.add_option("--progress", progress, help.progress)
      ->check(CLI::IsMember({"auto", "plain", "none"}))
      ->type_name("KIND");
  return file;
}

void ConfigFlags::print(const std::string& document, const std::string& text) const {
  if (json)
    write_output(document + "\n");
  else if (!quiet)
    write_output(text);
}

ConfigNode ConfigFlags::load(const std::string& name) const {
  ConfigNode root = load_config(find_config(name));
  for (const std::string& assignment : overrides) override_config(root, assignment);
  if (devices) override_config(root, fmt::format("devices='{}'", *devices), "--devices");
  return root;
}

std::string ConfigFlags::default_name(const std::string& name) {
  constexpr std::array kEndings = {".yaml", ".yml", ".json"};
  // The user may leave the extension out, and a dot before it is part of the name: lr_0.1.
  const fs::path file = find_config(name).filename();
  const bool has_ending = std::ranges::any_of(kEndings, [&](const char* ending) { return file.extension() == ending; });
  return (has_ending ? file.stem() : file).string();
}

}  // namespace dptrain::app
