#include "base/text_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/process.h"

namespace dptrain {
namespace {

using testing::lines_of;

std::vector<TableColumn> two_runs() {
  return {{.header = "run", .cells = {"single", "a_name_of_twenty_five_xyz"}, .left_aligned = true},
          {.header = "seconds", .cells = {"1.5", "12.25 ± 0.01"}},
          {.header = "samples/s", .cells = {"1000", "99"}},
          {.header = "weights", .cells = {"3fa0", "77"}, .left_aligned = true}};
}

size_t characters(const std::string& line) {
  return static_cast<size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }));
}

TEST(TextTable, AlignsItsColumns) {
  EXPECT_EQ(text_table(two_runs(), 80),
            "run                             seconds  samples/s  weights\n"
            "single                              1.5       1000  3fa0\n"
            "a_name_of_twenty_five_xyz  12.25 ± 0.01         99  77\n");
}

TEST(TextTable, WhatDoesNotFitGoesBelowBehindTheFirstColumn) {
  EXPECT_EQ(text_table(two_runs(), 30),
            "run                   seconds\n"
            "single                    1.5\n"
            "a_name_of_twen~  12.25 ± 0.01\n"
            "\n"
            "run              samples/s\n"
            "single                1000\n"
            "a_name_of_twen~         99\n"
            "\n"
            "run              weights\n"
            "single           3fa0\n"
            "a_name_of_twen~  77\n");
}

TEST(TextTable, UnlikeCellsAreCutWhereTheyDiffer) {
  const std::string groups = "[{of: [conv1, conv2, fc2], learning_rate_factor: ";
  const std::vector<std::string> cells = {groups + "3}]", "none", groups + "44}, {of: [fc1]}]", groups + "3}]"};
  EXPECT_EQ(text_table({{.header = "run", .cells = {"a", "b", "c", "d"}, .left_aligned = true},
                        {.header = "groups", .cells = cells, .left_aligned = true}},
                       25),
            "run  groups\n"
            "a    ~ctor: 3}]\n"
            "b    none\n"
            "c    ~ctor: 44}, {of: [f~\n"
            "d    ~ctor: 3}]\n");
  // Equal cells, and a cell that is the beginning of another, are cut as usual.
  EXPECT_EQ(text_table({{.header = "run", .cells = {"a", "b"}},
                        {.header = "x", .cells = {"0123456789abcdef", "0123456789abcdef"}, .left_aligned = true}},
                       15),
            "run  x\n  a  012345678~\n  b  012345678~\n");
  // Only whole characters are cut: here a mark, and an accented letter of two bytes, precede the difference.
  EXPECT_EQ(text_table({{.header = "run", .cells = {"a", "b"}},
                        {.header = "x", .cells = {"0123456789é1", "0123456789é2"}, .left_aligned = true}},
                       12),
            "run  x\n  a  ~9é1\n  b  ~9é2\n");
}

TEST(TextTable, NeverIsWiderThanAsked) {
  for (int width = 8; width < 100; ++width)
    for (const std::string& line : lines_of(text_table(two_runs(), width)))
      EXPECT_LE(characters(line), static_cast<size_t>(width)) << line;
}

TEST(TextTable, CountsColumnsOfATerminalNotCharacters) {
  // Two columns per character; the second name's accent is a combining mark, which takes none.
  EXPECT_EQ(text_table({{.header = "class", .cells = {"日本", "cafe\u0301"}, .left_aligned = true},
                        {.header = "recall", .cells = {"1.00", "0.50"}}},
                       80),
            "class  recall\n"
            "日本     1.00\n"
            "cafe\u0301     0.50\n");
  EXPECT_EQ(text_table({{.header = "class", .cells = {"日本語日本語"}, .left_aligned = true},
                        {.header = "recall", .cells = {"1.00"}}},
                       16),
            "class     recall\n"
            "日本語~     1.00\n");
}

TEST(TextTable, OfMarkdownKeepsItsCellsApart) {
  EXPECT_EQ(markdown_table({{.header = "run", .cells = {"a|b", "c\nd"}, .left_aligned = true},
                            {.header = "x", .cells = {"1", "2"}}}),
            "| run | x |\n| :-- | --: |\n| a\\|b | 1 |\n| c d | 2 |\n");
}

TEST(Wrapped, BreaksBetweenWords) {
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree\n");
  EXPECT_EQ(wrapped("1 ± 2 x", 5), "1 ± 2\nx\n") << "characters count, not bytes";
  EXPECT_EQ(wrapped("longerthanthat a", 5), "longerthanthat\na\n");
  EXPECT_EQ(wrapped("", 5), "\n");
  EXPECT_EQ(wrapped("one two\n\n  three four\n", 7), "one two\n\n  three\n  four\n") << "its own lines stay";
}

TEST(Wrapped, ListsBreakBetweenItemsBelowTheFirst) {
  const std::vector<std::string> items = {"compute 1 s", "other 2 s", "waiting for data 3 s"};
  EXPECT_EQ(wrapped_list("time: ", items, 80), "time: compute 1 s, other 2 s, waiting for data 3 s\n");
  EXPECT_EQ(wrapped_list("time: ", items, 30), "time: compute 1 s, other 2 s,\n      waiting for data 3 s\n");
  EXPECT_EQ(wrapped_list("time: ", items, 20),
            "time: compute 1 s,\n"
            "      other 2 s,\n"
            "      waiting for\n"
            "      data 3 s\n")
      << "an item that is too long for a line is broken between its words";
  EXPECT_EQ(wrapped_list("none", {}, 5), "none\n");
}

}  // namespace
}  // namespace dptrain
