#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace dptrain::testing {

/// How `value` violates a JSON Schema of docs/, such as "metrics.schema.json", one line each: "/train/loss: expected
/// number, got null".
///
/// Only the parts of JSON Schema (draft 2020-12) that the schemas in docs/ use are supported: type, required,
/// properties, items, minimum, enum, const, pattern, anyOf and references to "#/$defs/...". Any other keyword counts as
/// a violation, so that none is overlooked. The schemas are open, because we may add keys; but this check requires a
/// description of every key, so that none is added without one.
std::vector<std::string> schema_violations(const std::string& schema, const nlohmann::json& value);

}  // namespace dptrain::testing
