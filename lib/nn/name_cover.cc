#include "nn/name_cover.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/nearest_name.h"

namespace dptrain::nn {
namespace {

/// The names of these tensors and of the modules that contain them.
std::vector<std::string> names_of_all(const std::vector<std::string>& tensors) {
  std::set<std::string> names(tensors.begin(), tensors.end());
  for (const std::string& tensor : tensors)
    for (size_t point = tensor.find('.'); point != std::string::npos; point = tensor.find('.', point + 1))
      names.insert(tensor.substr(0, point));
  return {names.begin(), names.end()};
}

/// Whether the pattern matches the whole text; `*` stands for any characters.
bool matches(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  text.remove_prefix(star);
  // Each piece up to the next `*` is matched as early as possible; the last piece must end the text.
  for (size_t next = pattern.find('*'); next != std::string_view::npos; next = pattern.find('*')) {
    const size_t at = text.find(pattern.substr(0, next));
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at + next);
    pattern.remove_prefix(next + 1);
  }
  return text.ends_with(pattern);
}

}  // namespace

bool covers(const std::string& entry, const std::string& name) {
  // The names of the modules that contain the tensor, from the outside in.
  for (size_t point = name.find('.'); point != std::string::npos; point = name.find('.', point + 1))
    if (matches(entry, std::string_view(name).substr(0, point))) return true;
  return matches(entry, name);
}

std::string suggested_cover(const std::string& entry, const std::vector<std::string>& tensors) {
  const std::vector<std::string> names = names_of_all(tensors);
  if (!nearest_name(entry, names).empty()) return suggestion(entry, names);
  // A model has hundreds of names, so only those of one module are listed.
  std::string module;
  for (size_t point = entry.find('.'); point != std::string::npos; point = entry.find('.', point + 1))
    if (std::ranges::any_of(names, [&](const auto& name) { return name.starts_with(entry.substr(0, point + 1)); }))
      module = entry.substr(0, point + 1);
  std::vector<std::string> known;
  for (const std::string& name : names)
    if (name.starts_with(module) && name.find('.', module.size()) == std::string::npos) known.push_back(name);
  return suggestion(entry, known);
}

}  // namespace dptrain::nn
