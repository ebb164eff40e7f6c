#include "config/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "config/key_shape.h"
#include "config/read_record.h"
#include "config/resolved_yaml.h"
#include "config/yaml_events.h"
#include "config/yaml_scalar.h"

namespace dptrain {
namespace {

template <typename T>
ConfigValue value_or_none(const std::optional<T>& value) {
  return value ? ConfigValue(*value) : ConfigValue();
}

/// The written path made absolute, so that config.yaml means the same wherever it is read again.
std::optional<std::string> path_in(const ConfigNode& node) {
  const auto written = text_in(node);
  if (!written || written->empty()) return std::nullopt;
  const std::filesystem::path folder =
      node.origin.line > 0 ? std::filesystem::path(node.origin.source).parent_path() : std::filesystem::path();
  return std::filesystem::absolute(folder / *written).lexically_normal().string();
}

}  // namespace

ReadKey& ConfigReader::ask(std::string_view key, KeyShape shape) {
  ReadKey& record = mapping_.record(key);
  shape.words = std::move(record.shape.words);
  if (!record.default_word.empty()) {
    shape.required = false;
    shape.otherwise = record.default_word;
  }
  record.shape = std::move(shape);

  const ConfigNode* node = mapping_.find(key);
  record.written = node != nullptr && node->kind != ConfigNode::Kind::null ? node : nullptr;
  if (record.written != nullptr) {
    record.show({}, short_origin(node->origin));
    return record;
  }
  record.show(yaml_value(record.shape.otherwise), "default");
  if (record.shape.required) {
    const ConfigOrigin& origin = mapping_.origin_of(key);
    const std::string dotted = mapping_.dotted(key);
    const std::string wanted = fmt::format("<{}>", expected_words(record.shape));
    const std::string advice = "write " + assignment(origin, dotted, wanted);
    if (node == nullptr)
      pass_.note_absent(mapping_, std::string(key), {place(origin, dotted), "required, but absent", {}, advice});
    else
      pass_.note(mapping_, origin, {place(origin, dotted), "required, but empty", {}, advice});
  }
  return record;
}

void ConfigReader::misread(const ReadKey& record, const ConfigNode& node, const std::string& dotted) {
  // `--set batch_size.x=1` makes a mapping of a file's number. That is the override's mistake.
  const auto added = std::ranges::find_if(
      node.map, [&](const auto& entry) { return entry.second.origin.source != node.origin.source; });
  const ConfigOrigin& origin = added != node.map.end() ? added->second.origin : node.origin;
  pass_.note(mapping_, origin,
             {place(origin, dotted), "expected " + expected_words(record.shape), got_words(node),
              advice(record.shape, node, origin, dotted.ends_with(']') ? dotted : mapping_.dotted(record.key))});
}

template <typename T, typename Parse>
std::optional<T> ConfigReader::take(ReadKey& record, Parse parse) {
  if (record.written == nullptr) return std::nullopt;
  const ConfigNode& node = *record.written;
  std::optional<T> value = parse(node);
  if (value)
    record.show(yaml_value(ConfigValue(*value)), short_origin(node.origin));
  else
    misread(record, node, mapping_.dotted(record.key));
  return value;
}

template <typename T, typename Parse>
std::optional<std::vector<T>> ConfigReader::take_list(ReadKey& record, Parse parse) {
  if (record.written == nullptr) return std::nullopt;
  const ConfigNode& node = *record.written;
  const bool is_list = node.kind == ConfigNode::Kind::list;
  const std::span<const ConfigNode> items = is_list ? std::span(node.list) : std::span(&node, 1);
  std::vector<T> values;
  for (size_t i = 0; i < items.size(); ++i) {
    if (std::optional<T> value = parse(items[i]))
      values.push_back(std::move(*value));
    else
      misread(record, items[i], mapping_.dotted(record.key) + (is_list ? fmt::format("[{}]", i) : ""));
  }
  if (values.size() != items.size()) return std::nullopt;
  record.show(yaml_value(ConfigValue(values)), short_origin(node.origin));
  return values;
}

int64_t ConfigReader::integer(std::string_view key, std::optional<int64_t> otherwise, const IntegerRule& rule) {
  ReadKey& record = ask(key, {.kind = KeyKind::integer,
                              .required = !otherwise,
                              .otherwise = value_or_none(otherwise),
                              .help = std::string(rule.help),
                              .integer = rule});
  const auto value = take<int64_t>(record, [&](const ConfigNode& node) { return integer_in(node, rule); });
  return value ? *value : otherwise.value_or(allowed_integer(rule, 0));
}

std::optional<int64_t> ConfigReader::optional_integer(std::string_view key, const IntegerRule& rule) {
  ReadKey& record = ask(key, {.kind = KeyKind::integer, .help = std::string(rule.help), .integer = rule});
  return take<int64_t>(record, [&](const ConfigNode& node) { return integer_in(node, rule); });
}

double ConfigReader::number(std::string_view key, std::optional<double> otherwise, const NumberRule& rule) {
  ReadKey& record = ask(key, {.kind = KeyKind::number,
                              .required = !otherwise,
                              .otherwise = value_or_none(otherwise),
                              .help = std::string(rule.help),
                              .number = rule});
  const auto value = take<double>(record, [&](const ConfigNode& node) { return number_in(node, rule); });
  return value ? *value : otherwise.value_or(allowed_number(rule, 0));
}

std::optional<double> ConfigReader::optional_number(std::string_view key, const NumberRule& rule) {
  ReadKey& record = ask(key, {.kind = KeyKind::number, .help = std::string(rule.help), .number = rule});
  return take<double>(record, [&](const ConfigNode& node) { return number_in(node, rule); });
}

bool ConfigReader::boolean(std::string_view key, std::optional<bool> otherwise, std::string_view help) {
  ReadKey& record = ask(key, {.kind = KeyKind::boolean,
                              .required = !otherwise,
                              .otherwise = value_or_none(otherwise),
                              .help = std::string(help)});
  return take<bool>(record, boolean_in).value_or(otherwise.value_or(false));
}

std::string ConfigReader::text(std::string_view key, std::optional<std::string> otherwise, std::string_view help) {
  ReadKey& record = ask(key, {.kind = KeyKind::text,
                              .required = !otherwise,
                              .otherwise = value_or_none(otherwise),
                              .help = std::string(help)});
  return take<std::string>(record, text_in).value_or(otherwise.value_or(""));
}

std::optional<std::string> ConfigReader::optional_text(std::string_view key, std::string_view help) {
  return take<std::string>(ask(key, {.kind = KeyKind::text, .help = std::string(help)}), text_in);
}

std::optional<std::filesystem::path> ConfigReader::optional_path(std::string_view key, std::string_view help) {
  return take<std::string>(ask(key, {.kind = KeyKind::path, .help = std::string(help)}), path_in);
}

std::filesystem::path ConfigReader::path(std::string_view key, std::string_view help) {
  ReadKey& record = ask(key, {.kind = KeyKind::path, .required = true, .help = std::string(help)});
  return take<std::string>(record, path_in).value_or("");
}

std::vector<std::filesystem::path> ConfigReader::paths(std::string_view key, std::string_view help) {
  ReadKey& record =
      ask(key, {.kind = KeyKind::texts, .otherwise = std::vector<std::string>(), .help = std::string(help)});
  const auto only_one = [&](const ConfigNode& node) -> std::optional<std::vector<std::string>> {
    auto path = path_in(node);
    if (!path) return std::nullopt;
    return std::vector<std::string>{*std::move(path)};
  };
  const bool scalar = record.written != nullptr && record.written->kind == ConfigNode::Kind::scalar;
  const auto written =
      scalar ? take<std::vector<std::string>>(record, only_one) : take_list<std::string>(record, path_in);
  if (!written) return {};
  return {written->begin(), written->end()};
}

std::string ConfigReader::one_of(std::string_view key, std::span<const std::string> names,
                                 std::optional<std::string> otherwise, std::string_view help) {
  DPTRAIN_CHECK(!names.empty(), "{} needs names to choose from", key);
  ReadKey& record = ask(key, {.kind = KeyKind::one_of,
                              .required = !otherwise,
                              .otherwise = value_or_none(otherwise),
                              .help = std::string(help),
                              .names = {names.begin(), names.end()}});
  const auto value = take<std::string>(record, [&](const ConfigNode& node) {
    auto name = text_in(node);
    return name && std::ranges::find(names, *name) != names.end() ? name : std::nullopt;
  });
  return value ? *value : otherwise.value_or(names.front());
}

std::vector<int64_t> ConfigReader::integers(std::string_view key, std::optional<std::vector<int64_t>> otherwise,
                                            const IntegerRule& rule) {
  ReadKey& record = ask(key, {.kind = KeyKind::integers,
                              .required = !otherwise,
                              .otherwise = value_or_none(otherwise),
                              .help = std::string(rule.help),
                              .integer = rule});
  const auto parse = [&](const ConfigNode& node) { return integer_in(node, rule); };
  return take_list<int64_t>(record, parse).value_or(otherwise.value_or(std::vector{allowed_integer(rule, 0)}));
}

std::vector<double> ConfigReader::numbers(std::string_view key, std::vector<double> otherwise, const NumberRule& rule) {
  ReadKey& record =
      ask(key, {.kind = KeyKind::numbers, .otherwise = otherwise, .help = std::string(rule.help), .number = rule});
  const auto parse = [&](const ConfigNode& node) { return number_in(node, rule); };
  return take_list<double>(record, parse).value_or(std::move(otherwise));
}

std::vector<std::string> ConfigReader::texts(std::string_view key, std::vector<std::string> otherwise,
                                             std::string_view help) {
  ReadKey& record = ask(key, {.kind = KeyKind::texts, .otherwise = otherwise, .help = std::string(help)});
  if (record.written != nullptr && record.written->kind == ConfigNode::Kind::scalar) {
    const auto split = [](const ConfigNode& node) { return texts_between_commas(node.scalar); };
    return take<std::vector<std::string>>(record, split).value_or(std::move(otherwise));
  }
  return take_list<std::string>(record, text_in).value_or(std::move(otherwise));
}

bool ConfigReader::has(std::string_view key) const {
  const ConfigNode* node = mapping_.find(key);
  return node != nullptr && node->kind != ConfigNode::Kind::null;
}

std::string ConfigReader::written(std::string_view key) const {
  const ConfigNode* node = mapping_.find(key);
  return node != nullptr && node->kind == ConfigNode::Kind::scalar ? node->scalar : "";
}

bool ConfigReader::has_others() const {
  if (mapping_.node == nullptr) return false;
  return std::ranges::any_of(mapping_.node->map, [&](const auto& written) {
    return std::ranges::find(mapping_.keys, written.first, &ReadKey::key) == mapping_.keys.end();
  });
}

bool ConfigReader::word(std::string_view key, std::string_view word, bool by_default) {
  ReadKey& record = mapping_.record(key);
  auto& words = record.shape.words;
  if (std::ranges::find(words, word) == words.end()) words.emplace_back(word);
  if (by_default) record.default_word = word;
  if (pass_.describing) return false;
  const ConfigNode* node = has(key) ? mapping_.find(key) : nullptr;
  const bool is_word = node == nullptr ? by_default : text_in(*node) == word;
  if (is_word) record.show(yaml_text(word), node == nullptr ? "default" : short_origin(node->origin));
  return is_word;
}

void ConfigReader::mistake(std::string_view key, std::string_view expected, std::string_view got,
                           std::string_view advice) {
  const std::string dotted = mapping_.dotted(key);
  if (!pass_.unmeasured.contains(dotted.substr(0, dotted.find_first_of(".["))))
    pass_.note(mapping_, mapping_.origin_of(key),
               {where(key), std::string(expected), std::string(got), std::string(advice)});
}

void ConfigReader::doubt(std::string_view key, const Error& error, std::span<const std::string_view> measured) {
  pass_.note(mapping_, mapping_.origin_of(key), error);
  pass_.unmeasured.insert(measured.begin(), measured.end());
}

void ConfigReader::fail_at_end(const Error& error) {
  if (!pass_.failure) pass_.failure = error;
}

std::string ConfigReader::where(std::string_view key) const {
  return place(mapping_.origin_of(key), mapping_.dotted(key));
}

std::string ConfigReader::where() const { return place(mapping_.origin, mapping_.path); }

bool ConfigReader::describing() const { return pass_.describing; }

void ConfigReader::default_varies(std::string_view key) {
  if (describing()) mapping_.record(key).shape.otherwise = {};
}

void ConfigReader::resolve(std::string_view key, std::string_view value, std::string_view origin) {
  const auto record = std::ranges::find(mapping_.keys, key, &ReadKey::key);
  DPTRAIN_CHECK(record != mapping_.keys.end(), "{} is resolved before it is read", key);
  record->shown = parse_yaml_value(value, std::string(origin), where(key)).text();
  record->origin = origin;
  record->resolved = true;
}

ResolvedOptions ConfigReader::resolved_options(std::string_view key) const {
  const auto record = std::ranges::find(mapping_.keys, key, &ReadKey::key);
  DPTRAIN_CHECK(record != mapping_.keys.end() && record->shape.kind == KeyKind::named, "{} is no name that was read",
                key);
  ResolvedOptions options;
  if (record->inner.empty()) return options;  // the name is wrong
  for (const ReadKey& option : record->inner.front()->keys)
    if (std::string value = resolved_value(option); option.key != "name" && !value.empty())
      options.emplace_back(option.key, std::move(value));
  return options;
}

}  // namespace dptrain
