#include "config/read_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/nearest_name.h"
#include "config/yaml_scalar.h"

namespace dptrain {
namespace {

std::vector<std::string> keys_of(const ReadMapping& mapping) {
  std::vector<std::string> keys;
  for (const ReadKey& record : mapping.keys) keys.push_back(record.key);
  return keys;
}

/// What to write instead of a key that `mapping` doesn't know. To YAML, `epochs:2` without a space is a key.
std::string advice_of(const std::string& key, const ReadMapping& mapping, const ReadMapping& root) {
  const std::vector<std::string> known = keys_of(mapping);
  const size_t colon = key.find(':');
  if (colon != std::string::npos && std::ranges::find(known, key.substr(0, colon)) != known.end())
    return fmt::format("write {}: {}, with a space after the colon", key.substr(0, colon), key.substr(colon + 1));
  if (&mapping != &root && nearest_name(key, known).empty())
    if (const auto at_top = nearest_name(key, keys_of(root)); !at_top.empty())
      return fmt::format("did you mean '{}' at the top level?", at_top);
  return suggestion(key, known);
}

/// Where in the mappings below `mapping` the key is known: "optimizer.momentum"; "" if it isn't.
std::string place_below(const ReadMapping& mapping, const std::string& key) {
  for (const ReadKey& record : mapping.keys)
    for (const auto& inner : record.inner)
      if (std::ranges::find(inner->keys, key, &ReadKey::key) != inner->keys.end()) return inner->dotted(key);
  return {};
}

}  // namespace

void ReadKey::show(std::string yaml, std::string from) {
  if (resolved) return;
  shown = std::move(yaml);
  origin = std::move(from);
}

ReadKey& ReadMapping::record(std::string_view key) {
  const auto found = std::ranges::find(keys, key, &ReadKey::key);
  return found != keys.end() ? *found : keys.emplace_back(ReadKey{.key = std::string(key)});
}

const ConfigNode* ReadMapping::find(std::string_view key) const {
  return node == nullptr ? nullptr : node->find(std::string(key));
}

const ConfigOrigin& ReadMapping::origin_of(std::string_view key) const {
  const ConfigNode* written = find(key);
  return written == nullptr ? origin : written->origin;
}

std::string ReadMapping::dotted(std::string_view key) const {
  return path.empty() ? yaml_text(key) : fmt::format("{}.{}", path, yaml_text(key));
}

void ReadPass::note(const ReadMapping& mapping, const ConfigOrigin& origin, const Mistake& mistake) {
  note(mapping, origin, Error(ExitCode::config, mistake));
}

void ReadPass::note(const ReadMapping& mapping, const ConfigOrigin& origin, const Error& error) {
  if (describing || mapping.muted) return;
  for (const std::string& line : error.lines()) mistakes.push_back({origin, line});
}

void ReadPass::note_absent(const ReadMapping& mapping, const std::string& key, const Mistake& mistake) {
  const size_t before = mistakes.size();
  note(mapping, mapping.origin_of(key), mistake);
  for (size_t i = before; i < mistakes.size(); ++i) mistakes[i].absent = mapping.dotted(key);
}

void ReadPass::note_repeated_keys(const ConfigNode& node, const std::string& path) {
  std::unordered_map<std::string, int> first_lines;
  for (const auto& [key, value] : node.map) {
    const ConfigOrigin& origin = value.origin;
    const auto [first, is_new] = first_lines.emplace(key, origin.line);
    if (!is_new) {
      // An override has no lines. If an override replaced the first value, that value's line is lost, too.
      const std::string before = first->second == 0 ? "" : fmt::format("on line {} and ", first->second);
      const std::string again = origin.line == 0 ? "again" : fmt::format("again on line {}", origin.line);
      note(root, origin,
           {origin.line == 0 ? place(origin, path) : origin.text(),
            fmt::format("expected the key {} once", yaml_text(key)), fmt::format("it {}{}", before, again),
            "keep one of the two"});
    }
    note_repeated_keys(value, path.empty() ? yaml_text(key) : fmt::format("{}.{}", path, yaml_text(key)));
  }
  for (const ConfigNode& item : node.list) note_repeated_keys(item, path);
}

void ReadPass::note_unknown_keys(const ReadMapping& mapping) {
  const std::vector<std::string> known = keys_of(mapping);
  const auto advice_for = [&](const std::string& key, const ConfigNode& value) {
    if (known.empty()) return std::string("no key is allowed here");
    // The options are under the name that they belong to: `strategy: {ddp: {overlap: false}}`.
    const bool is_name = known.front() == "name" && mapping.keys.front().shown == yaml_text(key);
    if (!is_name || value.kind != ConfigNode::Kind::map) {
      const std::string below = place_below(mapping, key);
      return below.empty() ? advice_of(key, mapping, root) : "it belongs in a mapping: " + below;
    }
    const std::string options = value.text();
    return fmt::format("write {{name: {}{}", key, value.map.empty() ? "}" : ", " + options.substr(1));
  };
  if (mapping.node != nullptr) {
    for (const auto& [key, value] : mapping.node->map) {
      if (std::ranges::find(known, key) != known.end()) continue;
      const std::string what = "unknown key, " + advice_for(key, value);
      note(mapping, value.origin, {place(value.origin, mapping.dotted(key)), what, {}, {}});
      if (const std::string meant = nearest_name(key, known); !meant.empty() && !mapping.muted)
        std::erase_if(mistakes, [&](const Noted& noted) { return noted.absent == mapping.dotted(meant); });
    }
  }
  for (const auto& record : mapping.keys)
    for (const auto& inner : record.inner) note_unknown_keys(*inner);
}

std::vector<std::string> ReadPass::mistake_lines() const {
  auto sorted = mistakes;
  std::ranges::stable_sort(sorted, {}, [](const Noted& noted) {
    return std::tuple(noted.origin.line == 0, noted.origin.line, noted.origin.column);
  });
  std::vector<std::string> lines;
  for (const auto& noted : sorted)
    if (std::ranges::find(lines, noted.sentence) == lines.end()) lines.push_back(noted.sentence);
  return lines;
}

std::string short_origin(const ConfigOrigin& origin) {
  return origin.line > 0 ? fmt::format("{}:{}", origin.source, origin.line) : origin.source;
}

std::string place(const ConfigOrigin& origin, const std::string& dotted) {
  const std::string text = origin.text();
  if (text == "--" + dotted) return text;  // a flag with the key's name, such as --devices
  return text.empty() ? dotted : fmt::format("{}: {}", text, dotted);
}

}  // namespace dptrain
