#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/text_lines.h"
#include "data/tokenizer.h"

namespace dptrain {

/// Lines of text as tokens, two bytes each, in one piece of memory. Every line has at least one token.
struct TokenizedLines {
  int64_t vocabulary_size = 0;
  std::string vocabulary_digest = {};  ///< the tokenizer's; empty if tokens are made up
  std::vector<uint16_t> tokens = {};
  std::vector<int64_t> begins = {0};  ///< the beginning of each line in `tokens`, and the end of the last

  int64_t count() const { return static_cast<int64_t>(begins.size()) - 1; }
  std::span<const uint16_t> operator[](int64_t index) const;
};

/// Cuts every line into tokens.
TokenizedLines tokenize(const TextLines& lines, const Tokenizer& tokenizer);

}  // namespace dptrain
