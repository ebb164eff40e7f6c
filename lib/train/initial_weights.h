#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "nn/named_values.h"
#include "parallel/strategy.h"

namespace dptrain::train {

struct Experiment;

/// Weights that a training begins with, of `init: {from: ...}`.
struct InitialWeights {
  std::filesystem::path path;  ///< a file, a checkpoint or a run
  bool average = false;        ///< of these the average that lies beside them
  /// Tensors that are drawn all the same: their names, or what stands before a point in them, which is a module's.
  std::vector<std::string> except = {};
};

/// All tensors of the file, which there are to be. Throws as find_weights and read_safetensors do, and 65 where a value
/// isn't finite.
std::vector<nn::NamedValues> read_initial_weights(const InitialWeights& weights);

/// Gives a strategy the weights that the experiment begins with, where these are a file's. Throws 65, naming the file
/// and the tensor, where they are another model's; 78 where `except` names what neither has; and as find_weights does.
/// All processes of a job call it alike.
void load_initial_weights(parallel::Strategy& strategy, const Experiment& experiment, const Dataset& data);

}  // namespace dptrain::train
