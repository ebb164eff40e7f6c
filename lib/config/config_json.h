#pragma once

#include <string>
#include <string_view>

namespace dptrain {

/// Converts a YAML config to JSON with two-space indentation, without a newline at its end. Keys keep their order.
/// Unquoted values become numbers, booleans and nulls if they are such. Throws an error with exit code 78 if `yaml`
/// isn't a config.
std::string config_json(std::string_view yaml);

}  // namespace dptrain
