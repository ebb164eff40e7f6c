#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dptrain {

/// Where a value was written (in a mapping: where its key stands): a file with line and column, "--set" or "--devices"
/// (line 0), or "default".
struct ConfigOrigin {
  std::string source = {};
  int line = 0;
  int column = 0;

  /// "configs/a.yaml:12:3", "--set"; what begins a message about the value.
  std::string text() const;
};

/// One value of a configuration as it was written; what it means is for the reader to say.
struct ConfigNode {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  ConfigOrigin origin = {};
  std::string scalar = {};  ///< as written, without quotes
  bool quoted = false;      ///< '1' is text, 1 a number
  std::vector<ConfigNode> list = {};
  std::vector<std::pair<std::string, ConfigNode>> map = {};  ///< in the order of the file
  /// The first value of `map`, under "", stood alone until an override put others beside it: the 128 of `linear: 128`.
  /// Its key is for the reader to say.
  bool has_shorthand = false;

  const ConfigNode* find(const std::string& key) const;
  /// One line of YAML flow style, for messages and files: {name: ddp, bucket_mb: 25}.
  std::string text() const;
};

}  // namespace dptrain
