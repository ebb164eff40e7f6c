#include "config/config_document.h"

#include "base/error.h"
#include "base/file.h"
#include "config/yaml_events.h"

namespace dptrain {

ConfigNode parse_config(std::string_view text, const std::string& source, std::string_view first_line) {
  return parse_yaml_document(text, source, first_line);
}

ConfigNode load_config(const std::filesystem::path& path, std::string_view first_line) {
  std::string text;
  try {
    text = read_file(path, kConfigLimitBytes);
  } catch (const Error& error) {
    // For a data file, too many bytes are bad data. Here they are a mistake in the config.
    if (error.code() != ExitCode::bad_data) throw;
    throw Error(ExitCode::config, Mistake{path.string(), "expected a configuration of at most 1 MiB", "a larger file",
                                          "check that it is the file you meant"});
  }
  return parse_config(text, path.string(), first_line);
}

}  // namespace dptrain
