#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_lines.h"

namespace dptrain {

/// The special tokens, which are the first of every vocabulary and have BERT's names. [UNK] is text that the vocabulary
/// has no piece for; the others aren't text.
inline constexpr int32_t kPadToken = 0, kUnknownToken = 1, kClassToken = 2, kSeparatorToken = 3, kMaskToken = 4;
inline constexpr int32_t kSpecialTokens = 5;

/// The largest vocabulary: a token takes 16 bits.
inline constexpr int64_t kMostPieces = 65536;

/// Makes a vocabulary of exactly `pieces` pieces for this text, special tokens included, with SentencePiece's unigram
/// model (Kudo, "Subword regularization", ACL 2018). Letters keep their case; every character of the text is a piece.
/// Training uses one thread and no sampling: the same text gives the same bytes with one version of SentencePiece. A
/// text over 64 MiB is thinned to every second line, or every third, and so on.
///
/// Returns the model as SentencePiece serializes it. Throws 78 if the text has too many characters for so few pieces,
/// or too little text for so many.
std::string train_vocabulary(const TextLines& lines, int64_t pieces);

/// Cuts text into tokens, and joins tokens to text. Immutable; any thread may use it.
class Tokenizer {
 public:
  /// The tokenizer of a model that train_vocabulary made; empty for other bytes.
  static std::optional<Tokenizer> load(std::string_view model);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  int64_t vocabulary_size() const;
  /// 16 hex digits of the hash of the pieces and their scores, which say what tokens mean and how text is cut into
  /// them.
  std::string vocabulary_digest() const;
  /// The tokens of `text`. None of them is special except [UNK], even if the text says "[MASK]".
  std::vector<int32_t> encode(std::string_view text) const;
  /// The text of `tokens`, each 0 to vocabulary_size() - 1. Runs of spaces have become one space, and characters have
  /// their compatible form (NFKC). Special tokens are left out, except that [UNK] becomes " ⁇ ".
  std::string decode(std::span<const int32_t> tokens) const;

 private:
  class Model;
  explicit Tokenizer(std::unique_ptr<const Model> model);

  std::unique_ptr<const Model> model_;
};

}  // namespace dptrain
