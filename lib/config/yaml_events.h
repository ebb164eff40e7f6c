#pragma once

#include <string>
#include <string_view>

#include "config/config_node.h"

namespace dptrain {

/// Limits for parsing, far above what a config needs and far below what would do harm.
inline constexpr size_t kConfigLimitBytes = size_t{1} << 20;
inline constexpr int kConfigLimitNodes = 10'000;
inline constexpr int kConfigLimitDepth = 32;

/// Parses a file: one document whose top level is a mapping. Nodes know their line and column; a value of a mapping has
/// those of its key. A key that occurs twice in a mapping is in the tree twice. Throws an error with exit code 78;
/// `first_line` is an example of how a file begins.
ConfigNode parse_yaml_document(std::string_view text, const std::string& source, std::string_view first_line);

/// Parses the value of an override: a scalar, or a list or mapping in flow style. Returns null if `text` is empty.
/// Nodes have the origin `source`, line 0. Messages begin with `where`. Throws an error with exit code 78.
ConfigNode parse_yaml_value(std::string_view text, const std::string& source, const std::string& where);

}  // namespace dptrain
