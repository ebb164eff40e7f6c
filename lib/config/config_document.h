#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/config_node.h"

namespace dptrain {

/// Parses one YAML document whose top level is a mapping. Throws 78, naming file, line and column, for broken YAML, an
/// anchor, alias or tag, a second document, a byte that isn't text in UTF-8, more than 1 MiB, 10,000 keys and values,
/// 32 levels, or 64 KiB without a key or value. A key that stands twice is in the tree twice; ConfigSession refuses it.
/// `first_line` is an example of how one begins.
ConfigNode parse_config(std::string_view text, const std::string& source, std::string_view first_line = "model: lenet");

/// Reads and parses a file. Throws 66 where it is missing, 74 where it can't be read, and as above.
ConfigNode load_config(const std::filesystem::path& path, std::string_view first_line = "model: lenet");

/// Puts `KEY=VALUE` (dotted keys and indices of lists in brackets, a YAML value) into the tree, making maps on the way;
/// a scalar on the way becomes {name: scalar}, so that `strategy: ddp` takes `strategy.bucket_mb=5`. What stands alone
/// behind an item's name, `linear: 128`, stays the option that it stands for. An empty value takes the default again,
/// and an item out of its list. `source` names the flag. Throws 78.
void override_config(ConfigNode& root, std::string_view assignment, const std::string& source = "--set");

}  // namespace dptrain
