#include "nn/name_cover.h"

#include <algorithm>
#include <set>

#include "base/nearest_name.h"

namespace dptrain::nn {
namespace {

/// Of these tensors and of the modules that they are in.
std::vector<std::string> names_of_all(const std::vector<std::string>& tensors) {
  std::set<std::string> names(tensors.begin(), tensors.end());
  for (const std::string& tensor : tensors)
    for (size_t point = tensor.find('.'); point != std::string::npos; point = tensor.find('.', point + 1))
      names.insert(tensor.substr(0, point));
  return {names.begin(), names.end()};
}

}  // namespace

bool covers(const std::string& entry, const std::string& name) {
  return name == entry || name.starts_with(entry + ".");
}

std::string suggested_cover(const std::string& entry, const std::vector<std::string>& tensors) {
  const std::vector<std::string> names = names_of_all(tensors);
  if (!nearest_name(entry, names).empty()) return suggestion(entry, names);
  // A model has hundreds of names.
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
