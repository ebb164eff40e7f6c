#include "train/config_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "config/config_document.h"
#include "train/config_difference.h"

namespace dptrain::train {
namespace {

/// The number of changes that are listed one by one.
constexpr size_t kTold = 6;

/// The text of the configuration that a checkpoint was written under; "" if its run has none, or has that of a later
/// training.
std::string config_of(const ResumePoint& from) {
  try {
    const auto run = std::filesystem::absolute(from.folder).parent_path().parent_path();
    std::string text = read_file(run / "config.yaml");
    if (sha256_of(text) == from.checkpoint.config_hash) return text;
  } catch (const Error&) {
    // The change is then reported without its keys.
  }
  return {};
}

}  // namespace

std::string changes_between(const std::string& before, const std::string& now, const std::vector<std::string>& except) {
  const auto keys =
      without_options_of_names(differing_keys({parse_config(before, "before"), parse_config(now, "now")}, except));
  const auto said = [](const std::string& value) { return value == "-" ? "none" : value; };
  std::vector<std::string> changes;
  for (const DifferingKey& key : keys) {
    const std::string from = said(key.values[0]), to = said(key.values[1]);
    // `normalize: none`, and a data set without that key, mean the same.
    if (from != to) changes.push_back(fmt::format("{} {} -> {}", key.key, from, to));
  }
  if (changes.size() > kTold) {
    const size_t more = changes.size() - kTold;
    changes.resize(kTold);
    changes.push_back(fmt::format("{} more", more));
  }
  return fmt::format("{}", fmt::join(changes, ", "));
}

std::string changes_since(const ResumePoint& from, const std::string& config) {
  if (from.checkpoint.config_hash == sha256_of(config)) return {};
  const std::string before = config_of(from);
  return before.empty() ? "the configuration" : changes_between(before, config, {"name", "devices", "hosts"});
}

std::string changes_since_finished(const std::filesystem::path& run, const std::string& config) {
  try {
    return changes_between(read_file(run / "config.yaml"), config, {"name", "devices", "hosts", "threads"});
  } catch (const Error&) {
    return "the configuration";
  }
}

}  // namespace dptrain::train
