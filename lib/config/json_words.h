#pragma once

#include <exception>
#include <string>

namespace dptrain {

/// Describes what is wrong with a JSON document, for a sentence's "got ...": "no key 'devices'", "a value of the wrong
/// type", "invalid JSON at line 1, column 5". `damage` is an exception of the library that reads JSON.
std::string json_words(const std::exception& damage);

}  // namespace dptrain
