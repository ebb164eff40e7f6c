#include "base/display_width.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

TEST(DisplayWidth, IsInColumns) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("train"), 5);
  EXPECT_EQ(display_width("± µs"), 4);
  EXPECT_EQ(display_width("日本語"), 6);
  EXPECT_EQ(display_width("e\u0301"), 1);
}

TEST(DisplayWidth, OfWhatIsNoTextIsAColumnAByte) {
  EXPECT_EQ(display_width("a\xff\xc3"), 3);
  EXPECT_EQ(display_width(std::string_view("a\0b", 3)), 3);
  EXPECT_EQ(display_width("a\tb"), 3);
}

TEST(DisplayPrefix, IsOfWholeCharactersWithTheirMarks) {
  EXPECT_EQ(display_prefix("train", 3), "tra");
  EXPECT_EQ(display_prefix("日本語", 3), "日");
  EXPECT_EQ(display_prefix("e\u0301a", 1), "e\u0301");
  EXPECT_EQ(display_prefix("日", 0), "");
  EXPECT_EQ(display_prefix("ab", 9), "ab");
}

}  // namespace
}  // namespace dptrain
