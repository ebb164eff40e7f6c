#include "models/frozen.h"

#include <utility>

#include "base/error.h"
#include "models/covered_parameters.h"

namespace dptrain::models {
namespace {

void freeze(nn::Model& model, const std::vector<std::string>& entries, const std::string& where) {
  for (Parameter* parameter : covered_parameters(model, entries, where)) parameter->freeze();
  bool trains = entries.empty();
  model.visit_parameters([&](const std::string&, const Parameter& parameter, const nn::Initializer&) {
    trains |= !parameter.is_frozen();
  });
  if (!trains)
    throw Error(ExitCode::config, Mistake{.where = where,
                                          .expected = "expected at least one parameter to remain trainable",
                                          .got = "all of them frozen",
                                          .advice = "leave the last module out of the list"});
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
