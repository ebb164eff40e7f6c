#include "config/json_words.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

namespace dptrain {
namespace {

using nlohmann::json;

/// The part of `text` between `before` and `after`.
std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const size_t begin = text.find(before);
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin + before.size());
  return text.substr(0, text.find(after));
}

}  // namespace

std::string json_words(const std::exception& damage) {
  constexpr int kKeyNotFound = 403;  // an error id of nlohmann::json
  const std::string_view said = damage.what();
  if (dynamic_cast<const json::parse_error*>(&damage) != nullptr)
    return fmt::format("invalid JSON at {}", between(said, "parse error at ", ":"));
  if (const auto* other = dynamic_cast<const json::exception*>(&damage); other != nullptr && other->id == kKeyNotFound)
    return fmt::format("no key {}", between(said, "key ", " not found"));
  return "a value of the wrong type";
}

}  // namespace dptrain
