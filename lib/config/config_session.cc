#include "base/error.h"
#include "config/config_reader.h"
#include "config/config_schema.h"
#include "config/read_record.h"
#include "config/resolved_yaml.h"

namespace dptrain {

ConfigSession::ConfigSession(const ConfigNode& root, const std::function<void(ConfigReader&)>& read) {
  ReadPass pass;
  pass.root.node = &root;
  // A mistake about a key that is missing at the top concerns the file, not the line of its first key.
  pass.root.origin.source = root.origin.source;
  ConfigReader reader(pass, pass.root);
  pass.note_repeated_keys(root);
  try {
    read(reader);
    pass.note_unknown_keys(pass.root);
  } catch (const Error& error) {
    if (!pass.failure && pass.mistake_lines().empty()) throw;
    reader.fail_at_end(error);
  }
  auto lines = pass.mistake_lines();
  if (pass.failure) {
    if (lines.empty()) throw Error(*pass.failure);
    lines.insert(lines.end(), pass.failure->lines().begin(), pass.failure->lines().end());
  }
  if (!lines.empty()) throw Error(ExitCode::config, std::move(lines));
  resolved_yaml_ = dptrain::resolved_yaml(pass.root, false);
  resolved_yaml_with_origins_ = dptrain::resolved_yaml(pass.root, true);
}

std::string ConfigSession::resolved_yaml() const { return resolved_yaml_; }

std::string ConfigSession::resolved_yaml_with_origins() const { return resolved_yaml_with_origins_; }

std::string ConfigSession::schema(std::string_view title, const std::function<void(ConfigReader&)>& read) {
  ReadPass pass;
  pass.describing = true;
  ConfigReader reader(pass, pass.root);
  read(reader);
  return config_schema(title, pass.root);
}

}  // namespace dptrain
