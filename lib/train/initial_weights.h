#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "nn/named_values.h"
#include "parallel/strategy.h"

namespace dptrain::train {

struct Experiment;

/// The weights of `init: {from: ...}`, which a training run begins with.
struct InitialWeights {
  std::filesystem::path path;  ///< a file, a checkpoint or a run
  bool average = false;        ///< use the moving average beside these weights
  /// Tensors that are drawn at random anyway: their names, or the name of a module, which is the part of a tensor's
  /// name before a dot.
  std::vector<std::string> except = {};
};

/// Reads all tensors of the file, or of the average beside it. Throws as find_weights and read_safetensors do, and 65
/// if the average is missing or a value isn't finite.
std::vector<nn::NamedValues> read_initial_weights(const InitialWeights& weights);

/// Gives a strategy the experiment's initial weights if they come from a file. Throws 65, naming the file and the
/// tensor, if they belong to another model; 78 if `except` names a tensor that neither has; and as find_weights does.
/// All processes of a job must call it.
void load_initial_weights(parallel::Strategy& strategy, const Experiment& experiment, const Dataset& data);

}  // namespace dptrain::train
