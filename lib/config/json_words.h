#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace dptrain {

/// What a JSON document has amiss, for a sentence's "got ...": "no key 'devices'", "a value of another type", "no JSON
/// at line 1, column 5".
std::string json_words(const nlohmann::json::exception& damage);

}  // namespace dptrain
