#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dptrain::parallel {

/// How the steps of a pipeline went, and how they were to go.
struct PipelineFigures {
  std::vector<std::vector<std::string>> stages;  ///< the names of the model's stages that each of them holds
  int stages_per_device = 1;                     ///< of D devices: stage s is on device s mod D
  int64_t micro_batches = 0;                     ///< of a step, those of `accumulate` included
  std::string schedule;
  /// The share of the devices' time that they wait by the schedule alone: from the times that their passes took, or as
  /// if all stages', and passes of data and weights, took equally long where they aren't known.
  double predicted_bubble = 0;
  /// The share that they waited for activations and gradients, GPUs by their own clocks; nothing where a GPU hasn't
  /// replayed a step yet.
  std::optional<double> bubble = {};
};

}  // namespace dptrain::parallel
