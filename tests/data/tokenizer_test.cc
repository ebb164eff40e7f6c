#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "data/refusal.h"
#include "data/small_text.h"
#include "data/tokenized_lines.h"

namespace dptrain {
namespace {

using testing::expect_refusal;
using testing::small_text;

constexpr int64_t kMostPieces = 60;

Tokenizer trained(const TextLines& lines = small_text(), int64_t pieces = kMostPieces) {
  return *Tokenizer::load(train_vocabulary(lines, pieces));
}

bool has_special(const std::vector<int32_t>& tokens) {
  return std::ranges::any_of(tokens, [](int32_t token) { return token < kSpecialTokens; });
}

TEST(Tokenizer, GivesTextBack) {
  const TextLines lines = small_text();
  const Tokenizer tokenizer = trained(lines);
  EXPECT_EQ(tokenizer.vocabulary_size(), kMostPieces);
  for (int64_t i = 0; i < lines.count(); ++i) {
    const std::vector<int32_t> tokens = tokenizer.encode(lines[i]);
    // Every character of the text, however rare, has a piece.
    EXPECT_FALSE(has_special(tokens)) << lines[i];
    EXPECT_LT(tokens.size(), lines[i].size()) << lines[i];
    EXPECT_EQ(tokenizer.decode(tokens), lines[i]);
  }
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("  the \t earth  ")), "the earth");
}

TEST(Tokenizer, TellsItsVocabularyFromOthers) {
  const std::string digest = trained().vocabulary_digest();
  EXPECT_EQ(digest.size(), 16u);
  EXPECT_EQ(trained().vocabulary_digest(), digest);
  EXPECT_NE(trained(small_text(), kMostPieces - 1).vocabulary_digest(), digest);
  TextLines lines = small_text();
  lines.append("And God made two great lights;");
  EXPECT_NE(trained(lines).vocabulary_digest(), digest);
}

TEST(Tokenizer, KeepsCase) {
  const Tokenizer tokenizer = trained();
  EXPECT_NE(tokenizer.encode("And"), tokenizer.encode("and"));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("God And god")), "God And god");
}

TEST(Tokenizer, TextIsNeverASpecialTokenButUnknown) {
  const Tokenizer tokenizer = trained();
  for (const std::string text : {"[MASK]", "[CLS] [SEP] [PAD]", "the [MASK] earth"})
    for (const int32_t token : tokenizer.encode(text))
      EXPECT_TRUE(token == kUnknownToken || token >= kSpecialTokens) << text << ": " << token;
  const std::vector<int32_t> unknown = tokenizer.encode("the \u4e2d");
  EXPECT_EQ(std::ranges::count(unknown, kUnknownToken), 1);
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{kPadToken, kClassToken, kSeparatorToken, kMaskToken}), "");
}

TEST(Tokenizer, WhatIsNotBlankHasATokenForEveryCharacter) {
  const Tokenizer tokenizer = trained();
  for (uint32_t code = 0x20; code < 0x10000; ++code) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string text;
    if (code < 0x80) {
      text = {static_cast<char>(code)};
    } else if (code < 0x800) {
      text = {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
    } else {
      text = {static_cast<char>(0xe0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3f)),
              static_cast<char>(0x80 | (code & 0x3f))};
    }
    TextLines lines;
    lines.append(text);
    EXPECT_TRUE(lines.count() == 0 || !tokenizer.encode(text).empty()) << std::hex << code;
  }
}

TEST(Tokenizer, LinesAreTokenizedOneByOne) {
  const TextLines lines = small_text();
  const Tokenizer tokenizer = trained(lines);
  const TokenizedLines tokenized = tokenize(lines, tokenizer);
  EXPECT_EQ(tokenized.vocabulary_size, kMostPieces);
  ASSERT_EQ(tokenized.count(), lines.count());
  for (int64_t i = 0; i < lines.count(); ++i) {
    const auto tokens = tokenized[i];
    EXPECT_EQ(std::vector<int32_t>(tokens.begin(), tokens.end()), tokenizer.encode(lines[i]));
  }
}

TEST(TrainVocabulary, IsReproducible) {
  const std::string model = train_vocabulary(small_text(), kMostPieces);
  TextLines other = small_text();
  other.append("And God made two great lights;");
  EXPECT_NE(train_vocabulary(other, kMostPieces), model);
  EXPECT_EQ(train_vocabulary(small_text(), kMostPieces), model);
}

TEST(TrainVocabulary, LearnsFromLongLinesToo) {
  TextLines lines;
  std::string line;
  // This line is longer than SentencePiece accepts by default.
  while (line.size() < 10000) line += "wheresoever ";
  lines.append(line);
  lines.append("a b");
  const Tokenizer tokenizer = trained(lines, 16);
  EXPECT_EQ(tokenizer.encode("wheresoever").size(), 1u);
}

TEST(TrainVocabulary, MorePiecesThanTheTextHasAre78) {
  expect_refusal(
      ExitCode::config,
      {"vocabulary: expected at most ", "pieces, the most that this text gives, got 4000; ask for", "more text"},
      [] { train_vocabulary(small_text(), 4000); });
  // The number in the advice works, and is the largest that does.
  int64_t most = 0;
  try {
    train_vocabulary(small_text(), 4000);
  } catch (const Error& error) {
    most = std::atoll(std::string(error.what()).substr(std::string("vocabulary: expected at most ").size()).c_str());
  }
  ASSERT_GE(most, kMostPieces);
  EXPECT_EQ(trained(small_text(), most).vocabulary_size(), most);
  expect_refusal(ExitCode::config, {"expected at most"}, [&] { train_vocabulary(small_text(), most + 1); });
}

TEST(TrainVocabulary, FewerPiecesThanCharactersAre78) {
  expect_refusal(ExitCode::config,
                 {"vocabulary: expected at least ", "one for each character", "got 20; ask for ", " or more"},
                 [] { train_vocabulary(small_text(), 20); });
}

TEST(TrainVocabulary, WhatSentencePieceTakesForItselfIs78) {
  TextLines lines;
  lines.append("\u2585");  // SentencePiece leaves out lines with this character
  expect_refusal(ExitCode::config, {"vocabulary", "SentencePiece", "got 20"}, [&] { train_vocabulary(lines, 20); });
}

TEST(TrainVocabulary, WritesNothingToStandardError) {
  ::testing::internal::CaptureStderr();
  train_vocabulary(small_text(), kMostPieces);
  EXPECT_THROW(train_vocabulary(small_text(), 4000), Error);
  EXPECT_FALSE(Tokenizer::load("no model"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Tokenizer, OtherBytesAreNoModel) {
  const std::string model = train_vocabulary(small_text(), kMostPieces);
  EXPECT_TRUE(Tokenizer::load(model));
  EXPECT_FALSE(Tokenizer::load(""));
  EXPECT_FALSE(Tokenizer::load("garbage"));
  EXPECT_FALSE(Tokenizer::load(model.substr(0, model.size() / 2)));
}

}  // namespace
}  // namespace dptrain
