#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dptrain {

/// Where a value was written; for a value of a mapping, the place of its key. This is a file with line and column, or
/// "--set" or "--devices" (line 0), or "default".
struct ConfigOrigin {
  std::string source = {};
  int line = 0;
  int column = 0;

  /// The beginning of a message about the value: "configs/a.yaml:12:3", "--set".
  std::string text() const;
};

/// One value of a config as it was written. Its reader decides what it means.
struct ConfigNode {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  ConfigOrigin origin = {};
  std::string scalar = {};  ///< as written, without quotes
  bool quoted = false;      ///< '1' is text, 1 a number
  std::vector<ConfigNode> list = {};
  std::vector<std::pair<std::string, ConfigNode>> map = {};  ///< in the order of the file
  /// The first value of `map`, under "", was a shorthand before an override added options beside it: the 128 of
  /// `linear: 128`. The reader knows its key.
  bool has_shorthand = false;

  const ConfigNode* find(const std::string& key) const;
  /// The value as one line of YAML flow style, for messages and files: {name: ddp, bucket_mb: 25}.
  std::string text() const;
};

}  // namespace dptrain
