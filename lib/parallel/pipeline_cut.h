#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/model.h"
#include "parallel/pipeline_schedule.h"

namespace dptrain::parallel {

/// The stages of a model that each stage of a pipeline holds, in order. The model's own are called units here.
using PipelineCut = std::vector<nn::StageRange>;

/// Where a pipeline is to be cut, as the configuration says it.
struct CutRequest {
  /// One entry a stage of the pipeline: how many units it holds, or the name of the unit that it begins with. Empty:
  /// the cut is made by what units cost.
  std::vector<std::string> entries = {};
  std::string where = "strategy.stages";  ///< the beginning of a message

  bool automatic() const { return entries.empty(); }
};

/// The names of a model's units.
std::vector<std::string> unit_names(const nn::Model& model);

/// Throws 78, listing the units by name, where a model of these can't be cut into `stages` on `devices` as it is asked
/// for.
void require_cut(const CutRequest& request, std::span<const std::string> units, int stages, int devices);
/// The cut that was written down. Throws 78 as require_cut does.
PipelineCut cut_as_listed(const CutRequest& request, std::span<const std::string> units, int stages);

/// What a unit costs on a device.
struct UnitCost {
  double seconds = 0;       ///< forward and backward, of one micro-batch
  int64_t fixed_bytes = 0;  ///< weights, gradients, the optimizer's state
  int64_t input_bytes = 0;  ///< of a micro-batch: what the unit before gives, and this one may keep as long
  int64_t kept_bytes = 0;   ///< that a micro-batch holds beside that between its forward and its backward pass
  /// The same between the backward passes of data and weights, where these are two.
  int64_t kept_for_weights_bytes = 0;
  int64_t most_bytes = 0;  ///< that a pass takes beside these, at its peak
};

/// Of consecutive ones together, as a stage: of inputs the first one's.
UnitCost cost_of(std::span<const UnitCost> units);

/// The cut into consecutive units, at least one a stage, whose slowest stage takes the least time. With a limit of
/// bytes (0: none) only stages that fit in it by the units' costs are taken; where no cut fits, the one whose largest
/// stage is the smallest. Of several stages a device that of `interleaved_cut`.
PipelineCut cut_by_cost(std::span<const UnitCost> units, const PipelineStep& step, int64_t limit_bytes = 0);

}  // namespace dptrain::parallel
