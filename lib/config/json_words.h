#pragma once

#include <exception>
#include <string>

namespace dptrain {

/// What a JSON document has amiss, of an exception of the library that reads it, for a sentence's "got ...": "no key
/// 'devices'", "a value of another type", "no JSON at line 1, column 5".
std::string json_words(const std::exception& damage);

}  // namespace dptrain
