#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/model.h"
#include "parallel/pipeline_schedule.h"

namespace dptrain::parallel {

/// The model's stages that each stage of a pipeline holds, in order. Here the model's own stages are called units.
using PipelineCut = std::vector<nn::StageRange>;

/// The places where the configuration wants a pipeline to be cut.
struct CutRequest {
  /// One entry per stage of the pipeline: its number of units, or the name of its first unit. If empty, the cut is made
  /// by the units' costs.
  std::vector<std::string> entries = {};
  std::string where = "strategy.stages";  ///< where the request was written, for error messages

  bool automatic() const { return entries.empty(); }
};

/// The names of a model's units.
std::vector<std::string> unit_names(const nn::Model& model);

/// Throws an error with exit code 78 if the units can't be cut into `stages` stages on `devices` devices as requested.
/// The message lists the units by name.
void require_cut(const CutRequest& request, std::span<const std::string> units, int stages, int devices);
/// The cut that the request lists. Throws as require_cut does.
PipelineCut cut_as_listed(const CutRequest& request, std::span<const std::string> units, int stages);

/// What a unit costs on a device.
struct UnitCost {
  double seconds = 0;       ///< forward and backward of one micro-batch
  int64_t fixed_bytes = 0;  ///< weights, gradients and optimizer state
  /// A micro-batch's input, which comes from the unit before; this unit may keep it as long as `kept_bytes`.
  int64_t input_bytes = 0;
  /// What a micro-batch keeps between its forward and its backward pass, its input not counted.
  int64_t kept_bytes = 0;
  /// What a micro-batch keeps between its two backward passes, of data and of weights, if these are separate.
  int64_t kept_for_weights_bytes = 0;
  int64_t most_bytes = 0;  ///< additional memory of a pass, at its peak
};

/// The cost of consecutive units as one stage. Its input is the first unit's.
UnitCost cost_of(std::span<const UnitCost> units);

/// The cut into consecutive units, at least one per stage, whose slowest stage takes the least time. With a limit of
/// bytes (0: none), only stages that fit by their units' costs are used. If no such cut exists, returns the cut whose
/// largest stage is the smallest. With several stages per device, returns `interleaved_cut`.
PipelineCut cut_by_cost(std::span<const UnitCost> units, const PipelineStep& step, int64_t limit_bytes = 0);

}  // namespace dptrain::parallel
