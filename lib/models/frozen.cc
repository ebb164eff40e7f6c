#include "models/frozen.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "nn/name_cover.h"

namespace dptrain::models {
namespace {

/// A parameter under one of its names.
struct NamedParameter {
  std::string name;
  Parameter* parameter;
};

std::vector<NamedParameter> named_parameters_of(nn::Model& model) {
  std::vector<NamedParameter> all;
  model.visit_parameters([&](const std::string& name, Parameter& parameter, const nn::Initializer&) {
    all.push_back({.name = name, .parameter = &parameter});
  });
  model.visit_tied(
      [&](const std::string& name, Parameter& parameter) { all.push_back({.name = name, .parameter = &parameter}); });
  return all;
}

[[noreturn]] void refuse(const std::string& where, std::string expected, std::string got, std::string advice) {
  throw Error(ExitCode::config, Mistake{where, std::move(expected), std::move(got), std::move(advice)});
}

void freeze(nn::Model& model, const std::vector<std::string>& entries, const std::string& where) {
  const std::vector<NamedParameter> all = named_parameters_of(model);
  for (const std::string& entry : entries) {
    bool is_known = false;
    for (const auto& [name, parameter] : all) {
      if (!nn::covers(entry, name)) continue;
      parameter->freeze();
      is_known = true;
    }
    if (is_known) continue;
    std::vector<std::string> names;
    for (const NamedParameter& one : all) names.push_back(one.name);
    refuse(where, "expected names of the model's parameters, or of modules in front of theirs",
           fmt::format("'{}'", entry), nn::suggested_cover(entry, names));
  }
  if (!entries.empty() && std::ranges::all_of(all, [](const auto& one) { return one.parameter->is_frozen(); }))
    refuse(where, "expected a parameter that is left to train", "all of them", "leave out the last module");
}

}  // namespace

ModelSpec with_frozen(ModelSpec spec, std::vector<std::string> entries, std::string where) {
  spec.build = [build = std::move(spec.build), entries = std::move(entries), where = std::move(where)](
                   const nn::LayerOptions& options, const ModelInput& input) {
    auto model = build(options, input);
    freeze(*model, entries, where);
    return model;
  };
  return spec;
}

}  // namespace dptrain::models
