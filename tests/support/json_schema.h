#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace dptrain::testing {

/// What is wrong with `value` by a JSON Schema of docs/, such as "metrics.schema.json", a line each: "/train/loss:
/// expected number, got null".
///
/// Of JSON Schema (draft 2020-12) that is as far as the schemas in docs/ go: type, required, properties, items,
/// minimum, enum, const, pattern, anyOf and references to "#/$defs/...". A keyword beyond these is a violation, so that
/// none is overlooked. A schema is open, because keys may be added to what we write; here every key must be described,
/// so that none is added without its description.
std::vector<std::string> schema_violations(const std::string& schema, const nlohmann::json& value);

}  // namespace dptrain::testing
