#include "base/html_text.h"

#include <gtest/gtest.h>

#include "base/html_table.h"
#include "support/html_page.h"

namespace dptrain {
namespace {

TEST(HtmlText, WhatHasAMeaningInHtmlIsEscaped) {
  EXPECT_EQ(html_text("a<b & \"c\" > 'd'"), "a&lt;b &amp; &quot;c&quot; &gt; &#39;d&#39;");
  EXPECT_EQ(html_text("&amp;"), "&amp;amp;");
  EXPECT_EQ(html_text(""), "");
}

TEST(HtmlText, Utf8StaysAndAllElseIsReplaced) {
  constexpr const char* kUnknown = "\xef\xbf\xbd";
  for (const char* whole : {"ünï", "数字", "😀", "\xf4\x8f\xbf\xbf", "tab\tand\nline"})
    EXPECT_EQ(html_text(whole), whole);
  EXPECT_EQ(html_text(std::string("a\0b", 3)), std::string("a") + kUnknown + "b");
  for (const char* control : {"\x1b", "\x7f", "\r", "\xc2\x85"}) EXPECT_EQ(html_text(control), kUnknown);
  EXPECT_EQ(html_text("\xff<"), std::string(kUnknown) + "&lt;");
  // Sequences cut short, by another character or the end; and a lone continuation byte.
  EXPECT_EQ(html_text("\xe6\x95<"), std::string(kUnknown) + kUnknown + "&lt;");
  EXPECT_EQ(html_text("\xf0\x9f\x98"), std::string(kUnknown) + kUnknown + kUnknown);
  EXPECT_EQ(html_text("\x80"), kUnknown);
  // An overlong form, half of a surrogate pair, and a value beyond the last character.
  for (const char* wrong : {"\xc0\xbc", "\xe0\x80\xbc", "\xf0\x80\x80\xbc", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    EXPECT_EQ(html_text(wrong).find_first_not_of(kUnknown), std::string::npos) << html_text(wrong);
}

TEST(HtmlTable, CellsAreEscapedAndRowsHaveNames) {
  const std::vector<TableColumn> columns = {{.header = "run <1>", .cells = {"a&b", "c"}, .left_aligned = true},
                                            {.header = "loss", .cells = {"0.5", "-"}}};
  const std::string table = html_table({html_column(columns[0]), html_column(columns[1])}, "all \"runs\"");
  EXPECT_EQ(testing::html_mistakes(table), std::vector<std::string>());
  EXPECT_NE(table.find("<th scope=\"col\">run &lt;1&gt;</th><th scope=\"col\" class=\"number\">loss</th>"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("<tr><th scope=\"row\">a&amp;b</th><td class=\"number\">0.5</td></tr>"), std::string::npos)
      << table;
  EXPECT_NE(table.find("aria-label=\"all &quot;runs&quot;\""), std::string::npos) << table;
}

TEST(HtmlTable, ALongOneHasAHeightOfItsOwn) {
  const auto table_of = [](size_t rows) {
    return html_table({{.header = "run", .cells = std::vector<std::string>(rows, "a")}}, "runs");
  };
  EXPECT_EQ(table_of(30).find("class=\"scroll long\""), std::string::npos);
  EXPECT_NE(table_of(31).find("class=\"scroll long\""), std::string::npos);
  EXPECT_EQ(testing::count_of(table_of(200), "<tr>"), 201u) << "whole all the same";
}

}  // namespace
}  // namespace dptrain
