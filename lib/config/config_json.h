#pragma once

#include <string>
#include <string_view>

namespace dptrain {

/// A configuration of YAML as JSON with two-space indentation, without a newline at its end: keys in their order, plain
/// values as the numbers, booleans and nulls that they are. Throws 78 for what is no configuration.
std::string config_json(std::string_view yaml);

}  // namespace dptrain
