#include "models/parameter_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/f32_range.h"
#include "models/covered_parameters.h"

namespace dptrain::models {
namespace {

[[noreturn]] void refuse(const ParameterGroup& group, std::string expected, std::string got, std::string advice) {
  throw Error(ExitCode::config, Mistake{group.where, std::move(expected), std::move(got), std::move(advice)});
}

std::vector<Parameter*> all_parameters(nn::Model& model) {
  std::vector<Parameter*> all;
  model.visit_parameters(
      [&](const std::string&, Parameter& parameter, const nn::Initializer&) { all.push_back(&parameter); });
  return all;
}

void set_factors(nn::Model& model, const ParameterGroup& group) {
  bool is_empty = true;
  for (Parameter* parameter : covered_parameters(model, group.of, group.where)) {
    if (parameter->is_frozen()) continue;
    if (group.dimensions && parameter->shape().rank() != *group.dimensions) continue;
    ops::UpdateFactors factors = parameter->update_factors();
    factors.learning_rate = group.learning_rate.value_or(factors.learning_rate);
    factors.weight_decay = group.weight_decay.value_or(factors.weight_decay);
    parameter->set_update_factors(factors);
    is_empty = false;
  }
  if (!is_empty) return;
  if (group.dimensions)
    refuse(group,
           fmt::format("expected a trained parameter with {} dimension{}", *group.dimensions,
                       *group.dimensions == 1 ? "" : "s"),
           "none", "biases and norms have 1, matrices and embeddings 2, kernels 4");
  refuse(group, "expected a trained parameter", "only frozen ones", "leave out the group, or freeze other parameters");
}

void require_few_kinds(nn::Model& model, const std::string& where) {
  std::vector<ops::UpdateFactors> kinds;
  for (const Parameter* parameter : all_parameters(model))
    if (!parameter->is_frozen() && std::ranges::find(kinds, parameter->update_factors()) == kinds.end())
      kinds.push_back(parameter->update_factors());
  if (std::ssize(kinds) > ops::UpdateGroups::kMost)
    throw Error(ExitCode::config,
                Mistake{.where = where,
                        .expected = fmt::format("expected at most {} different ways to update parameters",
                                                ops::UpdateGroups::kMost),
                        .got = std::to_string(kinds.size()),
                        .advice = "give more parameters the same factors"});
}

}  // namespace

std::vector<ParameterGroup> read_parameter_groups(ConfigReader& config) {
  std::vector<ParameterGroup> groups;
  const auto read = [&](ConfigReader& options) {
    ParameterGroup group;
    group.of = options.texts("of", group.of, "its parameters, by their names or the names of their modules");
    group.dimensions = options.optional_integer(
        "dimensions",
        {.min = 1, .max = 4, .help = "only parameters with this number of dimensions: biases and norms have 1"});
    group.learning_rate = options.optional_number(
        "learning_rate_factor",
        {.min = kLeastF32, .max = kMostF32, .help = "what their learning rate is multiplied by"});
    group.weight_decay = options.optional_number(
        "weight_decay_factor", {.min = 0, .max = kMostF32, .help = "what their weight decay is multiplied by"});
    if (options.describing()) return;
    if (!options.has("of") && !options.has("dimensions") && !options.has_others())
      options.mistake("of", "a group selects parameters, expected their names or a number of dimensions", "neither",
                      "write for instance of: [fc] or dimensions: 1");
    if (options.has("of") && group.of.empty())
      options.mistake("of", "expected names of parameters or modules", "none", "write for instance of: [fc]");
    if (!options.has("learning_rate_factor") && !options.has("weight_decay_factor") && !options.has_others())
      options.mistake("learning_rate_factor", "a group changes how its parameters are updated, expected a factor",
                      "none", "write for instance learning_rate_factor: 10 or weight_decay_factor: 0");
    group.where = options.has("of") ? options.where("of") : options.where();
    groups.push_back(std::move(group));
  };
  config.sections("parameter_groups", read,
                  "parameters that are updated differently from the rest; a later group overrides earlier ones",
                  "[{dimensions: 1, weight_decay_factor: 0}]");
  return groups;
}

ModelSpec with_parameter_groups(ModelSpec spec, std::vector<ParameterGroup> groups) {
  if (groups.empty()) return spec;
  spec.build = [build = std::move(spec.build), groups = std::move(groups)](const nn::LayerOptions& options,
                                                                           const ModelInput& input) {
    auto model = build(options, input);
    for (const ParameterGroup& group : groups) set_factors(*model, group);
    require_few_kinds(*model, groups.back().where);
    return model;
  };
  return spec;
}

}  // namespace dptrain::models
