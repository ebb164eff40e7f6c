#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/nearest_name.h"
#include "config/config_reader.h"
#include "config/key_shape.h"
#include "config/read_record.h"

namespace dptrain {
namespace {

using Kind = ConfigNode::Kind;

bool is_one_of(const std::vector<std::string>& names, const std::string& text) {
  return std::ranges::find(names, text) != names.end();
}

/// An item's name, and the node behind the name; null if there is none.
struct ChosenItem {
  std::string name;
  const ConfigNode* options = nullptr;
};

ChosenItem chosen_item(const ConfigNode& item) {
  if (item.kind == Kind::scalar) return {item.scalar};
  if (item.kind != Kind::map || item.map.size() != 1) return {};
  const auto& [name, options] = item.map.front();
  return {name, options.kind == Kind::null ? nullptr : &options};
}

/// Advice for a mapping that isn't one name in front of its options. The user likely meant a name with its options
/// beside it, or a name behind another key (`type: conv`). Empty if it contains no name.
std::string meant_item(const ConfigNode& item, const KeyShape& shape) {
  const auto& names = shape.names;
  if (std::ranges::count_if(item.map, [&](const auto& entry) { return is_one_of(names, entry.first); }) > 1)
    return "each name as an item of its own";
  for (size_t i = 0; i < item.map.size(); ++i) {
    const auto& [key, value] = item.map[i];
    const std::string name = is_one_of(names, key) ? key : value.scalar;
    if (!is_one_of(names, name)) continue;
    ConfigNode options = item;
    options.map.erase(options.map.begin() + static_cast<std::ptrdiff_t>(i));
    // The value of the name itself: its options, or the value of its shorthand option, as in `linear: classes`.
    const auto& shorthand = shape.shorthands[static_cast<size_t>(std::ranges::find(names, name) - names.begin())];
    if (name == key && value.kind == Kind::map)
      options.map.insert(options.map.begin(), value.map.begin(), value.map.end());
    else if (name == key && value.kind != Kind::null && !shorthand.empty() && options.find(shorthand) == nullptr)
      options.map.emplace(options.map.begin(), shorthand, value);
    return options.map.empty() ? name : fmt::format("{}: {}", name, options.text());
  }
  return {};
}

}  // namespace

std::string ConfigReader::misspelled_name(const ReadKey& record, std::span<const ConfigChoice> choices,
                                          const ConfigNode& item) {
  const auto choice = std::ranges::find_if(choices, [&](const auto& of) { return item.find(of.name) != nullptr; });
  if (choice == choices.end()) return {};
  const std::vector<std::string> options = option_keys(record, *choice);
  for (const auto& [key, value] : item.map) {
    if (key == choice->name || is_one_of(options, key)) continue;
    if (const std::string near = nearest_name(key, record.shape.names); !near.empty() && near != key)
      return fmt::format("did you mean '{}' instead of '{}'?", near, key);
  }
  return {};
}

void ConfigReader::misread_item(const ReadKey& record, std::span<const ConfigChoice> choices, size_t index,
                                const ConfigNode& item) {
  const auto& names = record.shape.names;
  const std::string where = place(item.origin, fmt::format("{}[{}]", mapping_.dotted(record.key), index));
  if (const std::string advice = misspelled_name(record, choices, item); !advice.empty())
    pass_.note(mapping_, item.origin,
               {where, "expected a name, alone or followed by its options", got_words(item), advice});
  else if (const std::string meant = meant_item(item, record.shape); !meant.empty())
    pass_.note(mapping_, item.origin,
               {where, "expected a name, alone or followed by its options", got_words(item), "write " + meant});
  else if (const std::string name = chosen_item(item).name; !name.empty())
    pass_.note(mapping_, item.origin, {where, "expected a known name", "'" + name + "'", suggestion(name, names)});
  else
    pass_.note(mapping_, item.origin,
               {where, "expected a name, alone or followed by its options", got_words(item),
                fmt::format("choose one of: {}", fmt::join(names, ", "))});
}

const ConfigNode* ConfigReader::options_of(const ConfigChoice& choice, const ConfigNode& written,
                                           ReadMapping& mapping) {
  const bool is_map = written.kind == Kind::map;
  if (is_map && !written.has_shorthand) return &written;
  if (choice.shorthand.empty()) {
    pass_.note(mapping, written.origin,
               {place(written.origin, mapping.path), "expected nothing, or a mapping of options", got_words(written),
                fmt::format("write {} alone", choice.name)});
    mapping.muted = true;
    return nullptr;
  }
  ConfigNode& options = pass_.expanded.emplace_back(ConfigNode{.kind = Kind::map, .origin = written.origin});
  if (is_map)
    options.map = written.map;
  else
    options.map.emplace_back("", written);
  if (options.find(choice.shorthand) == nullptr)
    options.map.front().first = choice.shorthand;
  else
    options.map.erase(options.map.begin());
  return &options;
}

void ConfigReader::named_list(std::string_view key, std::span<const ConfigChoice> choices, const NamedListRule& rule) {
  DPTRAIN_CHECK(!choices.empty(), "{} needs names to choose from", key);
  KeyShape shape{
      .kind = KeyKind::named_list,
      .required = rule.required && !rule.may_be_empty,
      .help = std::string(rule.help),
      .definition = std::string(rule.definition),
      .example = rule.example.empty() ? fmt::format("[{}]", choices.front().name) : std::string(rule.example)};
  if (rule.may_be_empty) shape.otherwise = std::vector<std::string>();
  for (const auto& choice : choices) {
    shape.names.push_back(choice.name);
    shape.names_help.push_back(choice.help);
    shape.shorthands.push_back(choice.shorthand);
  }
  ReadKey& record = ask(key, std::move(shape));
  const auto read_options = [&](const ConfigChoice& choice, ReadMapping& mapping) {
    mapping.choice = choice.name;
    ConfigReader options(pass_, mapping);
    if (choice.read_options) choice.read_options(options);
  };
  if (pass_.describing) {
    if (!pass_.definitions.insert(record.shape.definition).second) return;
    for (size_t i = 0; i < choices.size(); ++i) read_options(choices[i], inner(record, i, nullptr));
    return;
  }
  if (record.written == nullptr) return;
  const auto& items = record.written->list;
  if (record.written->kind != Kind::list || (items.empty() && !rule.may_be_empty)) {
    misread(record, *record.written, mapping_.dotted(key));
    return;
  }
  if (items.empty()) record.show("[]", short_origin(record.written->origin));
  for (size_t i = 0; i < items.size(); ++i) {
    const ChosenItem chosen = chosen_item(items[i]);
    const auto choice = std::ranges::find(choices, chosen.name, &ConfigChoice::name);
    ReadMapping& mapping = inner(record, i, nullptr);
    if (choice == choices.end()) {
      mapping.muted = true;
      misread_item(record, choices, i, items[i]);
      continue;
    }
    mapping.path = fmt::format("{}[{}].{}", mapping_.dotted(key), i, choice->name);
    mapping.origin = items[i].origin;
    if (chosen.options != nullptr && mapping.node == nullptr)
      mapping.node = options_of(*choice, *chosen.options, mapping);
    read_options(*choice, mapping);
  }
}

}  // namespace dptrain
