#include "data/tokenized_lines.h"

#include "base/check.h"

namespace dptrain {

std::span<const uint16_t> TokenizedLines::operator[](int64_t index) const {
  DPTRAIN_CHECK(index >= 0 && index < count(), "line {} of {}", index, count());
  const auto line = static_cast<size_t>(index);
  return std::span(tokens).subspan(static_cast<size_t>(begins[line]),
                                   static_cast<size_t>(begins[line + 1] - begins[line]));
}

TokenizedLines tokenize(const TextLines& lines, const Tokenizer& tokenizer) {
  TokenizedLines tokenized{.vocabulary_size = tokenizer.vocabulary_size(),
                           .vocabulary_digest = tokenizer.vocabulary_digest()};
  tokenized.begins.reserve(static_cast<size_t>(lines.count()) + 1);
  for (int64_t i = 0; i < lines.count(); ++i) {
    const std::vector<int32_t> tokens = tokenizer.encode(lines[i]);
    DPTRAIN_CHECK(!tokens.empty(), "line {} has no tokens", i);
    tokenized.tokens.insert(tokenized.tokens.end(), tokens.begin(), tokens.end());
    tokenized.begins.push_back(static_cast<int64_t>(tokenized.tokens.size()));
  }
  return tokenized;
}

}  // namespace dptrain
