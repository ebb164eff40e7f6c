#include "config/resolved_yaml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "config/yaml_scalar.h"

namespace dptrain {
namespace {

struct Line {
  std::string text;
  std::string origin;
};

std::vector<Line> lines_of(const ReadMapping& mapping);

/// Appends `inner` with `first` in front of its first line and `rest` in front of all other lines.
void append(std::vector<Line>& lines, std::vector<Line> inner, std::string_view first, std::string_view rest) {
  for (size_t i = 0; i < inner.size(); ++i)
    lines.push_back({fmt::format("{}{}", i == 0 ? first : rest, inner[i].text), std::move(inner[i].origin)});
}

void append_key(std::vector<Line>& lines, const ReadKey& record) {
  const std::string key = yaml_text(record.key) + ":";
  const bool is_nested = !record.inner.empty() && !record.resolved;
  if (!is_nested) {
    if (!record.shown.empty()) lines.push_back({key + " " + record.shown, record.origin});
    return;
  }
  std::vector<Line> inside;
  for (const auto& mapping : record.inner) {
    std::vector<Line> inner = lines_of(*mapping);
    if (record.shape.kind == KeyKind::named_list) {
      const std::string name = yaml_text(mapping->choice);
      inside.push_back({fmt::format("  - {}{}", name, inner.empty() ? "" : ":"), short_origin(mapping->origin)});
      append(inside, std::move(inner), "      ", "      ");
    } else if (record.shape.kind == KeyKind::sections) {
      if (inner.empty()) inner.push_back({"{}", short_origin(mapping->origin)});
      append(inside, std::move(inner), "  - ", "    ");
    } else {
      append(inside, std::move(inner), "  ", "  ");
    }
  }
  if (record.shape.kind == KeyKind::named && inside.size() == 1) {
    lines.push_back({key + " " + record.inner.front()->keys.front().shown, record.origin});
  } else if (inside.empty()) {
    if (record.written != nullptr) lines.push_back({key + " {}", record.origin});
  } else {
    lines.push_back({key, record.origin});
    append(lines, std::move(inside), "", "");
  }
}

std::vector<Line> lines_of(const ReadMapping& mapping) {
  std::vector<Line> lines;
  for (const auto& record : mapping.keys) append_key(lines, record);
  return lines;
}

std::string one_line(const ReadMapping& mapping) {
  std::vector<std::string> parts;
  for (const auto& record : mapping.keys)
    if (const std::string value = resolved_value(record); !value.empty())
      parts.push_back(fmt::format("{}: {}", yaml_text(record.key), value));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

/// Makes a comment. A file's name may contain a line end, but a comment can't.
std::string comment(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return "# " + text;
}

}  // namespace

std::string resolved_yaml(const ReadMapping& root, bool origins) {
  constexpr size_t kWidestColumn = 48;
  const std::vector<Line> lines = lines_of(root);
  if (lines.empty()) return "{}\n";
  size_t width = 0;
  for (const auto& line : lines) width = std::max(width, std::min(line.text.size(), kWidestColumn));
  std::string yaml;
  for (const auto& line : lines)
    yaml += origins ? fmt::format("{:<{}}  {}\n", line.text, width, comment(line.origin)) : line.text + "\n";
  return yaml;
}

std::string resolved_value(const ReadKey& record) {
  if (record.inner.empty() || record.resolved) return record.shown;
  const KeyKind kind = record.shape.kind;
  const ReadMapping& first = *record.inner.front();
  if (kind == KeyKind::named && first.keys.size() == 1) return first.keys.front().shown;
  if (kind != KeyKind::named_list && kind != KeyKind::sections) return one_line(first);
  std::vector<std::string> items;
  for (const auto& mapping : record.inner) {
    const std::string item = one_line(*mapping);
    if (kind == KeyKind::sections)
      items.push_back(item);
    else
      items.push_back(yaml_text(mapping->choice) + (item == "{}" ? "" : ": " + item));
  }
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace dptrain
