#include "models/covered_parameters.h"

#include <fmt/format.h>

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

}  // namespace

std::vector<Parameter*> covered_parameters(nn::Model& model, const std::vector<std::string>& entries,
                                           const std::string& where) {
  const std::vector<NamedParameter> all = named_parameters_of(model);
  std::vector<Parameter*> covered;
  for (const std::string& entry : entries) {
    const size_t before = covered.size();
    for (const auto& [name, parameter] : all)
      if (nn::covers(entry, name)) covered.push_back(parameter);
    if (covered.size() > before) continue;
    std::vector<std::string> names;
    for (const NamedParameter& one : all) names.push_back(one.name);
    throw Error(ExitCode::config, Mistake{.where = where,
                                          .expected = "expected names of the model's parameters or of its modules",
                                          .got = fmt::format("'{}'", entry),
                                          .advice = nn::suggested_cover(entry, names)});
  }
  return covered;
}

}  // namespace dptrain::models
