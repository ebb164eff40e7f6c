#include "data/text_lines.h"

#include <gtest/gtest.h>

#include "data/refusal.h"
#include "support/idx_files.h"

namespace dptrain {
namespace {

using testing::expect_refusal;
using testing::gzip;
using testing::ScratchFolder;

std::vector<std::string> all(const TextLines& lines) {
  std::vector<std::string> copied;
  for (int64_t i = 0; i < lines.count(); ++i) copied.emplace_back(lines[i]);
  return copied;
}

/// Reads `bytes` as a file called text.
std::vector<std::string> lines_in(const std::string& bytes) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.write("text", bytes);
  return all(read_text_lines({&path, 1}));
}

void expect_bad_lines(const std::string& bytes, const std::vector<std::string>& words) {
  expect_refusal(ExitCode::bad_data, words, [&] { lines_in(bytes); });
}

const std::vector<std::string> kTwoLines = {"In the beginning", "And the earth"};

TEST(TextLines, PlainAndGzipAreTheSame) {
  EXPECT_EQ(lines_in("In the beginning\nAnd the earth\n"), kTwoLines);
  EXPECT_EQ(lines_in(gzip("In the beginning\nAnd the earth\n")), kTwoLines);
}

TEST(TextLines, LineEndsOfAnySystem) {
  EXPECT_EQ(lines_in("In the beginning\r\nAnd the earth\r\n"), kTwoLines);
  EXPECT_EQ(lines_in("In the beginning\nAnd the earth"), kTwoLines);
  EXPECT_EQ(lines_in("\xef\xbb\xbfIn the beginning\r\nAnd the earth"), kTwoLines);
}

TEST(TextLines, BlankLinesAreLeftOut) {
  // Spaces, a tab, a no-break space, an ideographic space, and a byte order mark in the middle.
  EXPECT_EQ(lines_in("\n\nIn the beginning\n \t \n\u00a0\n\u3000\n\ufeff\r\nAnd the earth\n\n"), kTwoLines);
  EXPECT_EQ(lines_in(" a \n"), std::vector<std::string>{" a "});
}

TEST(TextLines, LinesGoOnFromPieceToPiece) {
  std::vector<std::string> expected;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    expected.emplace_back(static_cast<size_t>(1 + i * 331 % 9973), static_cast<char>('a' + i % 26));
    text += expected.back() + "\n";
  }
  ASSERT_GT(text.size(), size_t{128} << 10);
  EXPECT_EQ(lines_in(text), expected);
}

TEST(TextLines, FilesFollowOneAnother) {
  const ScratchFolder folder;
  const std::vector<std::filesystem::path> files = {folder.write("b", "one\ntwo"),
                                                    folder.write("a.gz", gzip("three\n"))};
  EXPECT_EQ(all(read_text_lines(files)), (std::vector<std::string>{"one", "two", "three"}));
}

TEST(TextLines, MissingFileIs66) {
  const std::filesystem::path path = "/no/such/text";
  expect_refusal(ExitCode::missing_file, {"/no/such/text", "no such file"}, [&] { read_text_lines({&path, 1}); });
}

TEST(TextLines, WhatIsNotUtf8IsRefusedWithItsLine) {
  expect_bad_lines("good\r\n\nm\xfcll\n",
                   {"text:3: expected UTF-8 text", "the byte 0xfc at position 2", "saved as UTF-8"});
  // Latin-1 at the end, a lone continuation byte, two overlong forms, a surrogate, a value beyond U+10FFFF, and a
  // sequence that the end of the line cuts off.
  for (const std::string bad :
       {"\xe9", "\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    expect_bad_lines("good\ngood" + bad + "\n", {"text:2: expected UTF-8 text", "at position 5"});
  expect_bad_lines(std::string("good\n\0bad\n", 10), {"text:2: expected UTF-8 text, got the byte 0x00 at position 1"});
  EXPECT_EQ(lines_in("\u00e9 \u4e2d \U0001f600"), std::vector<std::string>{"\u00e9 \u4e2d \U0001f600"});
}

TEST(TextLines, FilesWithoutALineAreRefused) {
  for (const std::string& bytes : {std::string(), gzip(""), std::string("\n \r\n\t"), std::string("\xef\xbb\xbf")})
    expect_bad_lines(bytes, {"text: expected lines of text, got none, or only blank ones"});
  const ScratchFolder folder;
  const std::vector<std::filesystem::path> files = {folder.write("full", "text"), folder.write("void", "")};
  expect_refusal(ExitCode::bad_data, {"void: expected lines of text"}, [&] { read_text_lines(files); });
}

TEST(TextLines, CutOffGzipIsRefused) {
  const std::string packed = gzip("In the beginning\n");
  expect_bad_lines(packed.substr(0, packed.size() - 3), {"text: expected the end of its gzip stream"});
}

TEST(TextLines, LongLinesAreRefused) {
  const std::string most(size_t{1} << 20, 'x');
  EXPECT_EQ(lines_in("a\n" + most + "\n").size(), 2u);
  expect_bad_lines("a\n" + most + "x\n", {"text:2: expected lines of at most 1048576 bytes, got more"});
  // Of a gigabyte in one line only the beginning is unpacked.
  expect_bad_lines(gzip("a\nb\n" + std::string(size_t{64} << 20, '\0')),
                   {"text:3: expected lines of at most 1048576 bytes"});
}

TEST(TextLines, AllFilesTogetherHaveALimit) {
  const ScratchFolder folder;
  const std::vector<std::filesystem::path> files = {folder.write("a", "123\n"), folder.write("b.gz", gzip("567\n"))};
  EXPECT_EQ(read_text_lines(files, 8).count(), 2);
  expect_refusal(ExitCode::bad_data, {"b.gz: expected at most 7 bytes of text in all files together, got more"},
                 [&] { read_text_lines(files, 7); });
}

}  // namespace
}  // namespace dptrain
