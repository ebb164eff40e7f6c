#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/config_node.h"

namespace dptrain {

/// Parses one YAML document whose top level is a mapping. `first_line` is an example of how a document begins. A key
/// that occurs twice is in the tree twice; ConfigSession refuses it. Throws an error with exit code 78 that names file,
/// line and column for:
///   - broken YAML, an anchor, an alias, a tag or a second document,
///   - a byte that isn't UTF-8 text,
///   - more than 1 MiB, 10,000 keys and values, or 32 levels,
///   - 64 KiB without a key or value.
ConfigNode parse_config(std::string_view text, const std::string& source, std::string_view first_line = "model: lenet");

/// Reads and parses a file. Throws an error with exit code 66 if it is missing, 74 if it can't be read, and the errors
/// of parse_config.
ConfigNode load_config(const std::filesystem::path& path, std::string_view first_line = "model: lenet");

/// Puts `KEY=VALUE` into the tree, making mappings on the way. KEY has dotted keys, with list indices in brackets;
/// VALUE is a YAML value. `source` names the flag. Throws an error with exit code 78.
///   - A scalar on the way becomes {name: scalar}, so `strategy.bucket_mb=5` works with `strategy: ddp`.
///   - A value behind an item's name, as in `linear: 128`, stays the option for which it is the shorthand.
///   - An empty VALUE restores the default, or removes an item from its list.
void override_config(ConfigNode& root, std::string_view assignment, const std::string& source = "--set");

}  // namespace dptrain
