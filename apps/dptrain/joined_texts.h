#pragma once

#include <string>
#include <vector>

namespace dptrain::app {

/// Joins texts that have no NUL characters into one, for messages.
inline std::string join_texts(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += text + '\0';
  return joined;
}

/// Splits a text that `join_texts` has joined.
inline std::vector<std::string> split_texts(const std::string& joined) {
  std::vector<std::string> texts;
  for (size_t begin = 0; begin < joined.size();) {
    const size_t end = joined.find('\0', begin);
    texts.push_back(joined.substr(begin, end - begin));
    begin = end + 1;
  }
  return texts;
}

}  // namespace dptrain::app
