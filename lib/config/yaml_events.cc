#include "config/yaml_events.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/bounded_feed.h"
#include "config/yaml_bytes.h"

namespace dptrain {
namespace {

using Kind = ConfigNode::Kind;

/// The text, its source, and how to say where in it something is wrong.
struct YamlInput {
  std::string_view text;
  std::string source;
  std::string where;            ///< for an override, which has no lines: the beginning of its messages; empty for a
                                ///< file
  std::string first_line = {};  ///< for a file: an example of its first line

  bool is_file() const { return where.empty(); }

  ConfigOrigin origin(const YAML::Mark& mark) const {
    return is_file() ? ConfigOrigin{source, mark.line + 1, mark.column + 1} : ConfigOrigin{source, 0, 0};
  }

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string expected, std::string got, std::string advice) const {
    throw Error(ExitCode::config, Mistake{is_file() ? origin(mark).text() : where, std::move(expected), std::move(got),
                                          std::move(advice)});
  }

  bool has_at(const YAML::Mark& mark, char c) const {
    const auto position = static_cast<size_t>(mark.pos);
    return mark.pos >= 0 && position < text.size() && text[position] == c;
  }

  /// Whether a tab is among the blanks at the beginning of the mark's line.
  bool has_tab_before(const YAML::Mark& mark) const {
    const std::string_view line = text.substr(std::min(static_cast<size_t>(mark.pos - mark.column), text.size()));
    return line.substr(0, line.find_first_not_of(" \t")).find('\t') != std::string_view::npos;
  }
};

constexpr const char* kSpacesForTabs = "indent with spaces instead of tabs";

[[noreturn]] void refuse_alias(const YamlInput& input, const YAML::Mark& mark) {
  input.refuse(mark, "expected plain values", "an alias (*)",
               "write the value out here, or quote a text that begins with *");
}

/// Builds the tree from yaml-cpp's events and refuses what a config doesn't need. Each refusal throws at its event, so
/// that a malicious file is never read further than the limit that it exceeds.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const YamlInput& input, BoundedFeed& feed) : input_(input), feed_(feed) {}

  ConfigNode take_root() { return std::move(root_); }
  /// The first list or mapping that was written with lines instead of brackets.
  const std::optional<YAML::Mark>& block_style() const { return block_style_; }
  /// The innermost bracket that is open.
  std::optional<YAML::Mark> open_bracket() const {
    for (auto open = open_.rbegin(); open != open_.rend(); ++open)
      if (input_.has_at(open->mark, '[') || input_.has_at(open->mark, '{')) return open->mark;
    return std::nullopt;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      input_.refuse(mark, "expected one YAML document", "the beginning of a second one",
                    "keep one, and check the indentation of this line");
  }
  void OnDocumentEnd() override {}

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    input_.refuse(mark, "expected plain values", fmt::format("the anchor &{}", name),
                  "write the value out wherever it is needed");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_alias(input_, mark); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    count_node(mark);
    if (awaits_key()) refuse_key(mark, "nothing");
    add(ConfigNode{.origin = input_.origin(mark)}, mark);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    count_node(mark);
    refuse_tag(mark, tag);
    if (tag == "!") require_closed(mark);
    if (value.find('\0') != std::string::npos) input_.refuse(mark, "expected text", "a NUL character", "leave it out");
    if (awaits_key()) return take_key(mark, value);
    ConfigNode node{.kind = Kind::scalar, .origin = input_.origin(mark), .scalar = value, .quoted = tag == "!"};
    add(std::move(node), mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value style) override {
    open(mark, tag, style, Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value style) override {
    open(mark, tag, style, Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  /// A list or mapping that is not closed yet.
  struct Open {
    ConfigNode node;
    YAML::Mark mark;
    bool has_key = false;
    std::string key = {};
    ConfigOrigin key_origin = {};
  };

  bool awaits_key() const { return !open_.empty() && open_.back().node.kind == Kind::map && !open_.back().has_key; }

  void count_node(const YAML::Mark& mark) {
    feed_.event_seen();
    if (++nodes_ > kConfigLimitNodes)
      input_.refuse(mark, fmt::format("expected at most {} keys and values", kConfigLimitNodes), "more",
                    "check that it is the file you meant");
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    // yaml-cpp gives a plain value the tag "?" and a quoted one "!", which an explicit `! 1` gets too.
    if ((tag == "?" || tag == "!") && !input_.has_at(mark, '!')) return;
    input_.refuse(mark, "expected plain values", tag.size() > 1 ? fmt::format("the tag {}", tag) : "a tag (!)",
                  "leave the tag out, or quote a text that begins with !");
  }

  /// Refuses an open quote. yaml-cpp takes the end of the text for the closing quote if a line end precedes it.
  /// Everything behind an open quote would then be part of the value.
  void require_closed(const YAML::Mark& mark) const {
    const std::string_view text = input_.text;
    const auto begin = static_cast<size_t>(mark.pos);
    if (mark.pos < 0 || begin >= text.size() || (text[begin] != '"' && text[begin] != '\'')) return;
    const char quote = text[begin];
    for (size_t i = begin + 1; i < text.size(); ++i) {
      if (quote == '"' && text[i] == '\\') {
        ++i;
      } else if (text[i] == quote) {
        // Within single quotes, two of them stand for one.
        if (quote == '"' || i + 1 == text.size() || text[i + 1] != quote) return;
        ++i;
      }
    }
    input_.refuse(mark, fmt::format("expected a text that ends with {}", quote), "no such quote up to the end",
                  "close the quote");
  }

  /// yaml-cpp also takes a list that is never closed for a key.
  [[noreturn]] void refuse_key(const YAML::Mark& mark, std::string got) const {
    input_.refuse(mark, "expected a name as the key", std::move(got),
                  "write a name before the colon, or close the bracket");
  }

  void refuse_top_level(const YAML::Mark& mark, std::string got) const {
    if (open_.empty() && input_.is_file())
      input_.refuse(mark, "expected keys with values", std::move(got),
                    input_.has_tab_before(mark) ? kSpacesForTabs : "begin with a line like " + input_.first_line);
  }

  void take_key(const YAML::Mark& mark, const std::string& key) {
    Open& map = open_.back();
    map.key = key;
    map.key_origin = input_.origin(mark);
    map.has_key = true;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::EmitterStyle::value style, Kind kind) {
    count_node(mark);
    refuse_tag(mark, tag);
    if (awaits_key()) refuse_key(mark, kind == Kind::list ? "a list" : "a mapping");
    if (kind == Kind::list) refuse_top_level(mark, "a list");
    if (style == YAML::EmitterStyle::Block && !block_style_) block_style_ = mark;
    if (open_.size() == kConfigLimitDepth)
      input_.refuse(mark, fmt::format("expected at most {} levels of lists and mappings", kConfigLimitDepth), "more",
                    "check the brackets and the indentation");
    open_.push_back(Open{.node = ConfigNode{.kind = kind, .origin = input_.origin(mark)}, .mark = mark});
  }

  void close() {
    ConfigNode node = std::move(open_.back().node);
    const YAML::Mark mark = open_.back().mark;
    open_.pop_back();
    add(std::move(node), mark);
  }

  void add(ConfigNode node, const YAML::Mark& mark) {
    if (open_.empty()) {
      if (node.kind == Kind::null) refuse_top_level(mark, "nothing");
      if (node.kind == Kind::scalar) refuse_top_level(mark, "a text without a colon");
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == Kind::list) {
      parent.node.list.push_back(std::move(node));
      return;
    }
    node.origin = parent.key_origin;
    parent.node.map.emplace_back(std::move(parent.key), std::move(node));
    parent.has_key = false;
  }

  const YamlInput& input_;
  BoundedFeed& feed_;
  int documents_ = 0;
  int nodes_ = 0;
  std::optional<YAML::Mark> block_style_;
  std::vector<Open> open_;
  ConfigNode root_;
};

/// The line and column of a byte, for places for which yaml-cpp has no mark.
YAML::Mark mark_of(std::string_view text, size_t position) {
  const std::string_view before = text.substr(0, position);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0, the first line's start
  YAML::Mark mark;
  mark.pos = static_cast<int>(position);
  mark.line = static_cast<int>(std::ranges::count(before, '\n'));
  mark.column = static_cast<int>(position - line_start);
  return mark;
}

/// `bracket`: the innermost bracket that is open at the mistake.
[[noreturn]] void refuse_syntax(const YamlInput& input, const YAML::Exception& error,
                                const std::optional<YAML::Mark>& bracket) {
  const YAML::Mark mark = error.mark.is_null() ? mark_of(input.text, input.text.size()) : error.mark;
  if (input.has_at(mark, '*')) refuse_alias(input, mark);
  if (bracket && (error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW || error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW)) {
    const bool is_list = input.has_at(*bracket, '[');
    input.refuse(*bracket, is_list ? "expected a ] that closes this [" : "expected a } that closes this {", "none",
                 "close the bracket");
  }
  if (error.msg == YAML::ErrorMsg::EOF_IN_SCALAR)
    input.refuse(mark, "expected a quote that closes the text", "none", "close the quote");
  input.refuse(mark, "expected valid YAML", fmt::format("a mistake in the syntax ({})", error.msg),
               input.has_tab_before(mark)
                   ? kSpacesForTabs
                   : "check indentation, brackets, quotes and the space after each colon, here and above");
}

ConfigNode parse(YamlInput input) {
  if (input.text.size() > kConfigLimitBytes)
    input.refuse(YAML::Mark(), "expected at most 1 MiB of YAML", fmt::format("{} bytes", input.text.size()),
                 "check that it is the file you meant");
  // The byte order mark, which some editors put first.
  if (input.text.starts_with("\xef\xbb\xbf")) input.text.remove_prefix(3);
  if (const auto bad = first_bad_byte(input.text))
    input.refuse(mark_of(input.text, bad->position), "expected text in UTF-8", bad->what,
                 "save the file as plain text");

  BoundedFeed feed(input.text);
  std::istream stream(&feed);
  TreeBuilder builder(input, feed);
  bool has_document = false;
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) has_document = true;
  } catch (const YAML::Exception& error) {
    if (!feed.ended_early()) refuse_syntax(input, error, builder.open_bracket());
  } catch (const Error&) {
    if (!feed.ended_early()) throw;
  }
  // If yaml-cpp complained above, it was about an end that the text doesn't have.
  if (feed.ended_early())
    input.refuse(YAML::Mark(), "expected no value over 64 KiB", "a longer value, or brackets that are not closed",
                 "check brackets and quotes");
  if (!has_document && input.is_file())
    input.refuse(YAML::Mark(), "expected keys with values", "an empty file",
                 "begin with a line like " + input.first_line);
  if (!input.is_file() && builder.block_style())
    input.refuse(*builder.block_style(), "expected a value in flow style", "a list or mapping in block style",
                 "write [a, b] or {key: value}");
  return builder.take_root();
}

}  // namespace

ConfigNode parse_yaml_document(std::string_view text, const std::string& source, std::string_view first_line) {
  return parse(YamlInput{.text = text, .source = source, .where = {}, .first_line = std::string(first_line)});
}

ConfigNode parse_yaml_value(std::string_view text, const std::string& source, const std::string& where) {
  ConfigNode value = parse(YamlInput{.text = text, .source = source, .where = where});
  value.origin.source = source;  // an empty text has no place of its own
  return value;
}

}  // namespace dptrain
