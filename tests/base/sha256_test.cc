// The known answers of FIPS 180-4's examples, whole and in pieces of every size around a block.

#include "base/sha256.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

std::string digest(std::string_view text, size_t piece = std::string_view::npos) {
  Sha256 hash;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) hash.update(text.substr(0, piece));
  return hash.hex_digest();
}

TEST(Sha256, GivesTheKnownAnswers) {
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesDoNotMatter) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7 % 251);
  const std::string whole = digest(text);
  for (const size_t piece : {1, 3, 55, 56, 63, 64, 65, 127, 128, 129, 999}) EXPECT_EQ(digest(text, piece), whole);
}

TEST(Sha256, LengthsAroundABlockDiffer) {
  // From 56 bytes on the padding takes another block, and 64 bytes fill a block.
  EXPECT_EQ(digest(std::string(55, 'a')), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(digest(std::string(56, 'a')), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(digest(std::string(64, 'a')), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

}  // namespace
}  // namespace dptrain
