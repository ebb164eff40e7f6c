#include "data/tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_trainer.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"

namespace dptrain {
namespace {

/// The most text to train on. Training takes about 25 bytes of memory and half a microsecond for each byte of text;
/// this much text takes 1.6 GB.
constexpr int64_t kMostTrainingBytes = int64_t{64} << 20;

/// Gives SentencePiece every `step`-th line.
class LineIterator final : public sentencepiece::SentenceIterator {
 public:
  LineIterator(const TextLines& lines, int64_t step) : lines_(lines), step_(step) { show(); }
  bool done() const override { return next_ >= lines_.count(); }
  void Next() override {
    next_ += step_;
    show();
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void show() {
    if (!done()) line_ = lines_[next_];
  }

  const TextLines& lines_;
  int64_t step_;
  int64_t next_ = 0;
  std::string line_;
};

/// The number that follows `words` in a message.
std::optional<int64_t> number_after(const std::string& message, const std::string& words) {
  const size_t at = message.find(words);
  if (at == std::string::npos) return std::nullopt;
  const int64_t number = std::atoll(message.c_str() + at + words.size());
  return number > 0 ? std::optional(number) : std::nullopt;
}

/// Reports in plain words that SentencePiece can't make so many pieces.
[[noreturn]] void refuse_size(int64_t pieces, const std::string& message) {
  Mistake mistake;
  mistake.where = "vocabulary";
  mistake.got = fmt::format("{}", pieces);
  if (const auto most = number_after(message, "Please set it to a value <= ")) {
    mistake.expected = fmt::format("expected at most {} pieces, the most that this text gives", *most);
    mistake.advice = fmt::format("ask for {} or fewer, or give more text", *most);
  } else if (const auto least = number_after(message, fmt::format("{} vs ", pieces))) {
    mistake.expected = fmt::format("expected at least {} pieces, one for each character of this text", *least);
    mistake.advice = fmt::format("ask for {} or more", *least);
  } else {
    mistake.expected = "expected a number of pieces that SentencePiece can make of this text";
    mistake.advice = "SentencePiece says: " + message;
  }
  throw Error(ExitCode::config, mistake);
}

}  // namespace

std::string train_vocabulary(const TextLines& lines, int64_t pieces) {
  DPTRAIN_CHECK(lines.count() > 0 && pieces > kSpecialTokens && pieces <= kMostPieces, "{} pieces of {} lines", pieces,
                lines.count());
  LineIterator iterator(lines, lines.bytes() / kMostTrainingBytes + 1);
  std::string model;
  const sentencepiece::util::Status status = sentencepiece::SentencePieceTrainer::Train(
      {
          {"model_type", "unigram"},
          {"vocab_size", std::to_string(pieces)},
          {"pad_id", std::to_string(kPadToken)},
          {"unk_id", std::to_string(kUnknownToken)},
          {"bos_id", std::to_string(kClassToken)},
          {"eos_id", std::to_string(kSeparatorToken)},
          {"pad_piece", "[PAD]"},
          {"unk_piece", "[UNK]"},
          {"bos_piece", "[CLS]"},
          {"eos_piece", "[SEP]"},
          {"control_symbols", "[MASK]"},  // takes the first free number
          {"normalization_rule_name", "nmt_nfkc"},
          // A lower coverage would turn rare capitals into [UNK].
          {"character_coverage", "1.0"},
          {"num_threads", "1"},
          {"input_sentence_size", "0"},
          {"shuffle_input_sentence", "false"},
          // Longer lines would be dropped silently.
          {"max_sentence_length", std::to_string(kMostTrainingBytes)},
          {"minloglevel", "3"},  // keeps SentencePiece from writing to standard error
      },
      &iterator, &model);
  if (!status.ok()) refuse_size(pieces, status.error_message());
  return model;
}

class Tokenizer::Model {
 public:
  sentencepiece::SentencePieceProcessor processor;
};

std::optional<Tokenizer> Tokenizer::load(std::string_view model) {
  auto loaded = std::make_unique<Model>();
  auto& processor = loaded->processor;
  if (!processor.LoadFromSerializedProto(model).ok()) return std::nullopt;
  if (processor.GetPieceSize() <= kSpecialTokens || processor.GetPieceSize() > kMostPieces) return std::nullopt;
  constexpr std::array kNames = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (int token = 0; token < kSpecialTokens; ++token)
    if (processor.IdToPiece(token) != kNames[static_cast<size_t>(token)]) return std::nullopt;
  return Tokenizer(std::move(loaded));
}

Tokenizer::Tokenizer(std::unique_ptr<const Model> model) : model_(std::move(model)) {}

Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

int64_t Tokenizer::vocabulary_size() const { return model_->processor.GetPieceSize(); }

std::string Tokenizer::vocabulary_digest() const {
  Sha256 sha;
  for (int token = 0; token < model_->processor.GetPieceSize(); ++token)
    sha.update(fmt::format("{} {}\n", model_->processor.IdToPiece(token), model_->processor.GetScore(token)));
  return sha.hex_digest().substr(0, 16);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int> tokens;
  const auto status = model_->processor.Encode(text, &tokens);
  DPTRAIN_CHECK(status.ok(), "{}", status.error_message());
  return tokens;
}

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  const auto status = model_->processor.Decode(std::vector<int>(tokens.begin(), tokens.end()), &text);
  DPTRAIN_CHECK(status.ok(), "{}", status.error_message());
  return text;
}

}  // namespace dptrain
