#include "train/initial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/error.h"
#include "nn/name_cover.h"
#include "train/evaluation_weights.h"
#include "train/experiment.h"
#include "train/run_directory.h"
#include "train/safetensors.h"
#include "train/strategy_context.h"
#include "train/training_identity.h"

namespace dptrain::train {
namespace {

using Tensors = std::vector<nn::NamedValues>;

std::vector<std::string> names_of(const Tensors& tensors) {
  std::vector<std::string> names;
  for (const nn::NamedValues& tensor : tensors) names.push_back(tensor.name);
  return names;
}

void require_known(const std::vector<std::string>& except, const Tensors& model, const Tensors& file) {
  const auto has = [](const Tensors& tensors, const std::string& entry) {
    return std::ranges::any_of(tensors, [&](const nn::NamedValues& tensor) { return nn::covers(entry, tensor.name); });
  };
  for (const std::string& entry : except) {
    if (has(model, entry) || has(file, entry)) continue;
    throw Error(ExitCode::config, Mistake{.where = "init.except",
                                          .expected = "expected names of the model's tensors or of its modules",
                                          .got = fmt::format("'{}'", entry),
                                          .advice = nn::suggested_cover(entry, names_of(model))});
  }
}

/// The names that `except` covers, and the names that are tied to them.
std::set<std::string> names_covered(const std::vector<std::string>& except, const Tensors& model, const Tensors& file) {
  std::set<std::string> names;
  for (const Tensors* tensors : {&model, &file})
    for (const nn::NamedValues& tensor : *tensors)
      if (std::ranges::any_of(except, [&](const std::string& entry) { return nn::covers(entry, tensor.name); }))
        names.insert(tensor.name);
  for (const nn::NamedValues& tensor : model)
    if (names.contains(tensor.name) && !tensor.tied_to.empty()) names.insert(tensor.tied_to);
  for (const nn::NamedValues& tensor : model)
    if (names.contains(tensor.tied_to)) names.insert(tensor.name);
  return names;
}

/// The file's tensors, except those that `except` covers: these keep the values that the strategy has drawn.
Tensors with_drawn(const Tensors& model, Tensors file, const std::vector<std::string>& except) {
  const std::set<std::string> covered = names_covered(except, model, file);
  std::erase_if(file, [&](const nn::NamedValues& tensor) { return covered.contains(tensor.name); });
  std::ranges::copy_if(model, std::back_inserter(file),
                       [&](const nn::NamedValues& tensor) { return covered.contains(tensor.name); });
  return file;
}

}  // namespace

Tensors read_initial_weights(const InitialWeights& weights) {
  const auto path = find_weights(weights.path);
  if (weights.average) return read_average_weights(path);
  auto tensors = read_safetensors(path);
  require_finite_tensors(tensors, path.string());
  return tensors;
}

void load_initial_weights(parallel::Strategy& strategy, const Experiment& experiment, const Dataset& data) {
  if (!experiment.initial_weights) return;
  const std::vector<std::string>& except = experiment.initial_weights->except;
  const auto path = find_weights(experiment.initial_weights->path);
  require_same_vocabulary(data, path);
  auto tensors = read_initial_weights(*experiment.initial_weights);
  if (!except.empty()) {
    const Tensors model = whole_model(strategy, experiment.job);
    require_known(except, model, tensors);
    tensors = with_drawn(model, std::move(tensors), except);
  }
  load_weights(strategy, tensors, path.string(), experiment.job,
               "use the model and options that it was made with, or list the tensors to be drawn in init.except");
}

}  // namespace dptrain::train
