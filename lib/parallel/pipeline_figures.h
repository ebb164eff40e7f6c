#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dptrain::parallel {

/// How the steps of a pipeline went, and what was predicted.
struct PipelineFigures {
  std::vector<std::vector<std::string>> stages;  ///< by stage of the pipeline: the names of its stages of the model
  int stages_per_device = 1;                     ///< with D devices, stage s is on device s mod D
  int64_t micro_batches = 0;                     ///< per step, including those of `accumulate`
  std::string schedule;
  /// The share of the devices' time that the schedule alone makes them wait. It is computed from measured times of the
  /// passes. If they aren't known, all stages, and passes of data and weights, are assumed to take equal time.
  double predicted_bubble = 0;
  /// The measured share of time that devices waited for activations and gradients, for GPUs by their own clocks.
  /// Nothing if a GPU hasn't replayed a step yet.
  std::optional<double> bubble = {};
};

}  // namespace dptrain::parallel
