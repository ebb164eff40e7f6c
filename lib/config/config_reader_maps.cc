#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/nearest_name.h"
#include "config/config_reader.h"
#include "config/key_shape.h"
#include "config/read_record.h"
#include "config/yaml_scalar.h"

namespace dptrain {
namespace {

/// Whether `key` is a word that other tools use for `name`, or a misspelled `name`.
bool stands_for_name(const std::string& key) {
  const std::array<std::string, 1> name = {"name"};
  return key == "type" || key == "kind" || !nearest_name(key, name).empty();
}

}  // namespace

/// The mapping number `index` under a key. An earlier reading of the same key may have made it.
ReadMapping& ConfigReader::inner(ReadKey& record, size_t index, const ConfigNode* node) {
  if (record.inner.size() <= index) {
    auto mapping = std::make_unique<ReadMapping>();
    mapping->node = node;
    mapping->path = mapping_.dotted(record.key);
    if (record.shape.kind == KeyKind::sections) mapping->path += fmt::format("[{}]", index);
    mapping->origin = node == nullptr ? mapping_.origin_of(record.key) : node->origin;
    mapping->muted = mapping_.muted;
    record.inner.push_back(std::move(mapping));
  }
  return *record.inner[index];
}

/// A mapping to read in place of a wrong one. The mistake is noted already, but the reader still needs values.
ReadMapping& ConfigReader::stand_in(std::string_view key) {
  ReadMapping& mapping = pass_.stand_ins.emplace_back();
  mapping.path = mapping_.dotted(key);
  mapping.origin = mapping_.origin_of(key);
  mapping.muted = true;
  return mapping;
}

std::vector<std::string> ConfigReader::option_keys(const ReadKey& record, const ConfigChoice& choice) {
  ReadMapping& mapping = stand_in(record.key);
  ConfigReader options(pass_, mapping);
  if (choice.read_options) choice.read_options(options);
  std::vector<std::string> keys;
  for (const ReadKey& read : mapping.keys) keys.push_back(read.key);
  return keys;
}

std::string ConfigReader::name_of_options(const ReadKey& record, std::span<const ConfigChoice> choices,
                                          const ConfigNode& written) {
  const auto takes = [&](const ConfigChoice& choice) {
    const std::vector<std::string> keys = option_keys(record, choice);
    return std::ranges::all_of(written.map,
                               [&](const auto& entry) { return std::ranges::find(keys, entry.first) != keys.end(); });
  };
  const auto* by_default = std::get_if<std::string>(&record.shape.otherwise);
  const std::string usual = by_default != nullptr ? *by_default : choices.front().name;
  const auto own = std::ranges::find(choices, usual, &ConfigChoice::name);
  if (takes(*own)) return usual;
  const auto other = std::ranges::find_if(choices, takes);
  return other != choices.end() ? other->name : usual;
}

std::optional<std::string> ConfigReader::chosen_name(const ReadKey& record, std::span<const ConfigChoice> choices,
                                                     const ConfigNode& node) {
  const auto& names = record.shape.names;
  const auto is_name = [&](const std::string& text) { return std::ranges::find(names, text) != names.end(); };
  const std::string dotted = mapping_.dotted(record.key);
  if (node.kind != ConfigNode::Kind::map) {
    if (node.kind == ConfigNode::Kind::scalar && is_name(node.scalar)) return node.scalar;
    misread(record, node, dotted);
    return std::nullopt;
  }
  if (const ConfigNode* name = node.find("name")) {
    if (name->kind == ConfigNode::Kind::scalar && is_name(name->scalar)) return name->scalar;
    misread(record, *name, dotted + ".name");
    // Go on with the nearest name, so that its options are checked as well.
    const std::string near = name->kind == ConfigNode::Kind::scalar ? nearest_name(name->scalar, names) : "";
    return near.empty() ? std::nullopt : std::optional(near);
  }
  std::vector<std::string> keys_that_are_names;
  for (const auto& [key, value] : node.map)
    if (is_name(key)) keys_that_are_names.push_back(key);
  if (keys_that_are_names.size() == 1) return keys_that_are_names.front();
  std::string advice = fmt::format("add name: {}", yaml_text(name_of_options(record, choices, node)));
  for (const auto& [key, value] : node.map) {
    if (const auto near = nearest_name(key, names); !near.empty()) advice = fmt::format("did you mean '{}'?", near);
    // Other tools write `optimizer: {type: adam}`.
    if (value.kind == ConfigNode::Kind::scalar && is_name(value.scalar) && stands_for_name(key))
      advice = fmt::format("write name: {} in place of {}: {}", value.scalar, key, value.scalar);
  }
  pass_.note(mapping_, node.origin,
             {place(node.origin, dotted), "expected " + expected_words(record.shape),
              "a mapping without the key 'name': " + got_words(node), advice});
  return std::nullopt;
}

std::string ConfigReader::named(std::string_view key, std::span<const ConfigChoice> choices,
                                std::optional<std::string> otherwise, std::string_view help) {
  DPTRAIN_CHECK(!choices.empty(), "{} needs names to choose from", key);
  KeyShape shape{.kind = KeyKind::named, .required = !otherwise, .help = std::string(help)};
  if (otherwise) shape.otherwise = *otherwise;
  for (const auto& choice : choices) {
    shape.names.push_back(choice.name);
    shape.names_help.push_back(choice.help);
  }
  ReadKey& record = ask(key, std::move(shape));
  const auto read_options = [&](const ConfigChoice& choice, ReadMapping& mapping) {
    ReadKey& name = mapping.record("name");
    name.shape = {.kind = KeyKind::one_of, .required = true, .names = {choice.name}};
    name.show(yaml_text(choice.name), record.written ? short_origin(mapping.origin_of("name")) : "default");
    ConfigReader options(pass_, mapping);
    if (choice.read_options) choice.read_options(options);
  };

  if (pass_.describing) {
    for (size_t i = 0; i < choices.size(); ++i) read_options(choices[i], inner(record, i, nullptr));
    return otherwise.value_or(choices.front().name);
  }
  const auto name = record.written != nullptr ? chosen_name(record, choices, *record.written) : otherwise;
  const auto choice =
      std::ranges::find(choices, name.value_or(otherwise.value_or(choices.front().name)), &ConfigChoice::name);
  DPTRAIN_CHECK(choice != choices.end(), "the default of {} is not among its names", key);
  const bool is_map = record.written != nullptr && record.written->kind == ConfigNode::Kind::map;
  read_options(*choice, name ? inner(record, 0, is_map ? record.written : nullptr) : stand_in(key));
  return choice->name;
}

void ConfigReader::section(std::string_view key, const std::function<void(ConfigReader&)>& read, std::string_view help,
                           std::string_view example) {
  ReadKey& record = ask(key, {.kind = KeyKind::section, .help = std::string(help), .example = std::string(example)});
  const bool is_wrong = record.written != nullptr && record.written->kind != ConfigNode::Kind::map;
  ReadMapping& mapping = is_wrong ? stand_in(key) : inner(record, 0, record.written);
  ConfigReader inside(pass_, mapping);
  read(inside);
  if (!is_wrong) return;
  if (example.empty() && !mapping.keys.empty()) {
    const ReadKey& first = mapping.keys.front();
    record.shape.example = fmt::format("{{{}: {}}}", first.key, dptrain::example(first.shape, *record.written));
  }
  misread(record, *record.written, mapping_.dotted(key));
}

size_t ConfigReader::sections(std::string_view key, const std::function<void(ConfigReader&)>& read,
                              std::string_view help, std::string_view example) {
  ReadKey& record = ask(key, {.kind = KeyKind::sections, .help = std::string(help), .example = std::string(example)});
  if (pass_.describing) {
    ConfigReader inside(pass_, inner(record, 0, nullptr));
    read(inside);
    return 0;
  }
  if (record.written == nullptr) return 0;
  if (record.written->kind != ConfigNode::Kind::list) {
    misread(record, *record.written, mapping_.dotted(key));
    return 0;
  }
  const auto& items = record.written->list;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool is_wrong = items[i].kind != ConfigNode::Kind::map;
    if (is_wrong) misread(record, items[i], fmt::format("{}[{}]", mapping_.dotted(key), i));
    ReadMapping& mapping = inner(record, i, is_wrong ? nullptr : &items[i]);
    mapping.muted |= is_wrong;
    ConfigReader inside(pass_, mapping);
    read(inside);
  }
  return items.size();
}

std::vector<std::string> ConfigReader::written_keys() {
  mapping_.free_keys = true;
  if (pass_.describing) return {"*"};
  std::vector<std::string> keys;
  if (mapping_.node != nullptr)
    for (const auto& [key, value] : mapping_.node->map) keys.push_back(key);
  return keys;
}

}  // namespace dptrain
