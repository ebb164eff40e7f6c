#include "config/config_document.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "config/sample_config.h"

namespace dptrain::testing {
namespace {

std::string repeated(const std::string& part, size_t bytes, std::string text = "") {
  while (text.size() + part.size() <= bytes) text += part;
  return text;
}

std::string refusal(const std::string& text) {
  const Error error = error_of([&] { parse_config(text, "a.yaml"); });
  EXPECT_EQ(error.code(), ExitCode::config);
  EXPECT_EQ(error.lines().size(), 1u);
  return error.what();
}

TEST(ConfigDocument, KeepsValuesQuotesOrderAndPlaces) {
  const ConfigNode root = parse_config("b: 1\na:\n  c: '2'\n  d: [x, ~, {e: f}]\n", "a.yaml");
  EXPECT_EQ(root.text(), "{b: 1, a: {c: '2', d: [x, null, {e: f}]}}");
  const ConfigNode& c = *root.find("a")->find("c");
  EXPECT_TRUE(c.quoted);
  EXPECT_EQ(c.origin.text(), "a.yaml:3:3");
  EXPECT_EQ(root.find("a")->find("d")->list[0].origin.text(), "a.yaml:4:7");
  EXPECT_EQ(root.find("z"), nullptr);
}

TEST(ConfigDocument, TakesAByteOrderMarkAndWindowsLineEnds) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_EQ(parse_config(mark + "a: 1\r\nb: '\xc3\xa9'\r\n", "a.yaml").text(), "{a: 1, b: \xc3\xa9}");
  EXPECT_EQ(refusal(mark + "a: 1\r\nb: ! 3\r\n").substr(0, 12), "a.yaml:2:4: ");
}

struct Refusal {
  const char* name;
  std::string text;
  std::string message;
};

class ConfigRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(ConfigRefusal, SaysWhereWhatAndWhatToDo) { EXPECT_EQ(refusal(GetParam().text), GetParam().message); }

INSTANTIATE_TEST_SUITE_P(
    Each, ConfigRefusal,
    ::testing::Values(
        Refusal{"anchor", "a: 1\nb: &x 2\n",
                "a.yaml:2:4: expected plain values, got the anchor &x; write the value out wherever it is needed"},
        Refusal{"alias", "a: 1\nb: *x\n",
                "a.yaml:2:4: expected plain values, got an alias (*); write the value out here, or quote a text that "
                "begins with *"},
        Refusal{"tag", "a: !!int 3\n",
                "a.yaml:1:4: expected plain values, got the tag tag:yaml.org,2002:int; leave the tag out, or quote a "
                "text that begins with !"},
        Refusal{"bare_tag", "a: ! 3\n",
                "a.yaml:1:4: expected plain values, got a tag (!); leave the tag out, or quote a text that begins "
                "with !"},
        Refusal{"tag_of_a_list", "a: !x [3]\n",
                "a.yaml:1:4: expected plain values, got the tag !x; leave the tag out, or quote a text that begins "
                "with !"},
        Refusal{"second_document", "a: 1\n---\nb: 2\n",
                "a.yaml:2:1: expected one YAML document, got the beginning of a second one; keep one, and check the "
                "indentation of this line"},
        Refusal{
            "list_as_key", "? [a]\n: b\n",
            "a.yaml:1:3: expected a name as the key, got a list; write a name before the colon, or close the bracket"},
        Refusal{"mapping_as_key", "? {a: 1}\n: b\n",
                "a.yaml:1:3: expected a name as the key, got a mapping; write a name before the colon, or close the "
                "bracket"},
        Refusal{
            "null_as_key", "~: b\n",
            "a.yaml:1:1: expected a name as the key, got nothing; write a name before the colon, or close the bracket"},
        Refusal{"list_at_the_top", "- a\n- b\n",
                "a.yaml:1:1: expected keys with values, got a list; begin with a line like model: lenet"},
        Refusal{"text_at_the_top", "lenet\n",
                "a.yaml:1:1: expected keys with values, got a text without a colon; begin with a line like model: "
                "lenet"},
        Refusal{"empty", "",
                "a.yaml:1:1: expected keys with values, got an empty file; begin with a line like model: lenet"},
        Refusal{"only_a_comment", "# nothing\n\n",
                "a.yaml:1:1: expected keys with values, got an empty file; begin with a line like model: lenet"},
        Refusal{"nul_byte", std::string("a: 1\nb: x\0y\n", 12),
                "a.yaml:2:5: expected text in UTF-8, got a NUL byte; save the file as plain text"},
        Refusal{"nul_escape", "a: \"x\\0y\"\n", "a.yaml:1:4: expected text, got a NUL character; leave it out"},
        // yaml-cpp takes 0x04 for the end of the file and would drop the rest.
        Refusal{"control_character",
                "a: 1\n\x04"
                "b: 2\n",
                "a.yaml:2:1: expected text in UTF-8, got the control character 0x04; save the file as plain text"},
        Refusal{"not_utf8", "a: \xff\n",
                "a.yaml:1:4: expected text in UTF-8, got the byte 0xff, which is not UTF-8; save the file as plain "
                "text"},
        Refusal{"open_list", "a: [1, 2\n", "a.yaml:1:4: expected a ] that closes this [, got none; close the bracket"},
        Refusal{"open_list_above_a_key", "a: 1\nb: [1, {c: 2}\nd: 3\n",
                "a.yaml:2:4: expected a ] that closes this [, got none; close the bracket"},
        Refusal{"open_mapping", "a: 1\nb: {c: [1]\nd: 3\n",
                "a.yaml:2:4: expected a } that closes this {, got none; close the bracket"},
        // yaml-cpp would take the whole rest as part of the value.
        Refusal{"open_quote", "a: 1\nb: \"my run\nc: 2\n",
                "a.yaml:2:4: expected a text that ends with \", got no such quote up to the end; close the quote"},
        Refusal{"open_single_quote", "a: 'it''s\nc: 2\n",
                "a.yaml:1:4: expected a text that ends with ', got no such quote up to the end; close the quote"},
        Refusal{"escaped_quote", "a: 1\nb: \"x\\\"\nc: 2\n",
                "a.yaml:2:4: expected a text that ends with \", got no such quote up to the end; close the quote"},
        Refusal{"two_colons", "a: b: c\n",
                "a.yaml:1:5: expected valid YAML, got a mistake in the syntax (illegal map value); check indentation, "
                "brackets, quotes and the space after each colon, here and above"},
        Refusal{
            "tab_before_the_first_key", "\ta: 1\n",
            "a.yaml:1:2: expected keys with values, got a text without a colon; indent with spaces instead of tabs"},
        Refusal{"tab", "a:\n\tb: 1\n",
                "a.yaml:2:3: expected valid YAML, got a mistake in the syntax (illegal map value); indent with spaces "
                "instead of tabs"}),
    [](const auto& row) { return row.param.name; });

TEST(ConfigDocument, ReadsQuotesWithinQuotes) {
  const ConfigNode root = parse_config(
      "\xef\xbb\xbf# it's\na: 'it''s'\nb: \"a \\\"b\\\" \\\\\"\n'c''d': [\"\", '', \"'\", '\"']\nd: \"two\n  lines\"\n",
      "a.yaml");
  ASSERT_EQ(root.map.size(), 4u);
  EXPECT_EQ(root.map[0].second.scalar, "it's");
  EXPECT_EQ(root.map[1].second.scalar, "a \"b\" \\");
  EXPECT_EQ(root.map[2].first, "c'd");
  EXPECT_EQ(root.map[2].second.list.size(), 4u);
  EXPECT_EQ(root.map[3].second.scalar, "two lines");
}

TEST(ConfigDocument, AcceptsExactlyTheLimits) {
  std::string deep = "a: " + repeated("[", 31) + repeated("]", 31);
  EXPECT_NO_THROW(parse_config(deep, "a.yaml"));
  deep = "a: " + repeated("[", 32) + repeated("]", 32);
  EXPECT_EQ(refusal(deep),
            "a.yaml:1:35: expected at most 32 levels of lists and mappings, got more; check the brackets and the "
            "indentation");
  // The mapping, its key and the list are nodes too.
  EXPECT_NO_THROW(parse_config(repeated("1,", 2 * 9997, "a: [").replace(3, 1, "[") + "]", "a.yaml"));
}

TEST(ConfigDocument, RefusesTooManyNodes) {
  std::string text;
  for (int i = 0; i < 5001; ++i) text += "k" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(refusal(text),
            "a.yaml:5000:8: expected at most 10000 keys and values, got more; check that it is the file you meant");
}

TEST(ConfigDocument, RefusesMoreThanAMebibyte) {
  EXPECT_EQ(refusal(repeated("# comment\n", 1 << 20, "a: 1\n") + "# one more\n"),
            "a.yaml:1:1: expected at most 1 MiB of YAML, got 1048586 bytes; check that it is the file you meant");
}

// Each took up to 0.4 s and 190 MB with yaml-cpp alone. The bound is loose, so that a busy machine passes; an unlimited
// alias bomb takes hours.
TEST(ConfigDocument, RefusesBombsEarly) {
  std::string aliases = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'z'; ++c) {
    const std::string before = std::string("*") + static_cast<char>(c - 1);
    aliases += std::string(1, c) + ": &" + c + " [" + repeated(before + ", ", 30) + before + "]\n";
  }
  const size_t most = 1 << 20;
  const std::vector<std::string> bombs = {aliases,
                                          "k: &x [*x]",
                                          repeated("[", most),
                                          repeated("{", most),
                                          repeated("{a: ", most),
                                          repeated("[a,", most),
                                          repeated("- ", most),
                                          repeated("? ", most),
                                          repeated("[a],", most, "["),
                                          repeated("a,", most, "k: [["),
                                          repeated("\"\"", most),
                                          repeated("!a ", most),
                                          repeated("*a ", most),
                                          repeated("'", most, "k: \"")};
  for (const auto& bomb : bombs) {
    const auto start = std::chrono::steady_clock::now();
    refusal(bomb);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 1.0) << bomb.substr(0, 40);
  }
}

TEST(ConfigDocument, RefusesAValueThatDoesNotEnd) {
  for (const auto& text : {repeated("[", 1 << 20), repeated("long ", 1 << 17, "a: '")})
    EXPECT_EQ(refusal(text),
              "a.yaml:1:1: expected no value over 64 KiB, got a longer value, or brackets that are not closed; check "
              "brackets and quotes");
  EXPECT_NO_THROW(parse_config("b: '" + repeated("long ", 60 << 10) + "'", "a.yaml"));
}

TEST(LoadConfig, ReadsAFileAndNamesAMissingOne) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "load_config";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "a.yaml") << "a: 1\n";
  EXPECT_EQ(load_config(folder / "a.yaml").find("a")->origin.source, (folder / "a.yaml").string());

  const Error missing = error_of([&] { load_config(folder / "b.yaml"); });
  EXPECT_EQ(missing.code(), ExitCode::missing_file);
  EXPECT_EQ(missing.what(), (folder / "b.yaml").string() + ": no such file");

  std::ofstream(folder / "large.yaml") << repeated("# comment\n", 2 << 20);
  const Error large = error_of([&] { load_config(folder / "large.yaml"); });
  EXPECT_EQ(large.code(), ExitCode::config);
  EXPECT_EQ(large.what(), (folder / "large.yaml").string() +
                              ": expected a configuration of at most 1 MiB, got a larger file; check that it is the "
                              "file you meant");
}

}  // namespace
}  // namespace dptrain::testing
