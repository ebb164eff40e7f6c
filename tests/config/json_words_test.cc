#include "config/json_words.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dptrain {
namespace {

using nlohmann::json;

/// The error of reading key "a" as a number.
std::string words_of(const std::string& text) {
  try {
    json::parse(text).at("a").get<double>();
  } catch (const json::exception& damage) {
    return json_words(damage);
  }
  return "";
}

TEST(JsonWords, SayWhatIsAmiss) {
  EXPECT_EQ(words_of(R"({"a": 1})"), "");
  EXPECT_EQ(words_of("{}"), "no key 'a'");
  EXPECT_EQ(words_of("[]"), "a value of the wrong type");
  EXPECT_EQ(words_of(R"({"a": "one"})"), "a value of the wrong type");
  EXPECT_EQ(words_of("{\"a\":\n  1"), "invalid JSON at line 2, column 4");
  EXPECT_EQ(words_of(""), "invalid JSON at line 1, column 1");
}

}  // namespace
}  // namespace dptrain
