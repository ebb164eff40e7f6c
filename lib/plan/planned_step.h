#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/meta_communicator.h"
#include "comm/world_shape.h"
#include "data/batch_loader.h"
#include "device/operator_log.h"
#include "parallel/pipeline_figures.h"
#include "parallel/strategy.h"
#include "plan/model_layers.h"

namespace dptrain::plan {

/// A part of what a rank does: "forward 2", "layer1.0", "optimizer". Others may lie within it.
struct PlannedPart {
  std::string name;
  size_t begin = 0;  ///< of its operators the first
  size_t end = 0;    ///< behind the last of them; at least one more than that
};

/// What a rank holds in training, and what it does and sends in one step.
struct PlannedRank {
  DeviceId device;
  int64_t samples = 0;
  int64_t peak_bytes = 0;
  MemoryCounts memory_at_peak;
  CommCounts sent;
  std::vector<OperatorCost> operators;  ///< in order
  CallLog calls;                        ///< in order; those of all ranks are ends of the same collectives
  std::vector<PlannedPart> parts = {};  ///< see StepRequest::context

  double flops() const;
};

/// What a rank does in steps that follow on each other, from one without an update before it on.
struct FollowingSteps {
  std::vector<OperatorCost> operators;  ///< in order
  CallLog calls;                        ///< in order
  std::vector<PlannedPart> parts = {};  ///< see StepRequest::context
  /// What it has done and started by the end of each step; all but the last of these are complete.
  struct End {
    size_t operators = 0;
    size_t calls = 0;
  };
  std::vector<End> ends;
};

struct PlannedStep {
  int world_size = 1;
  int64_t batch_samples = 0;
  int64_t steps_per_epoch = 0;
  ParameterCounts parameters = {};          ///< of the whole model
  std::vector<PlannedRank> ranks;           ///< the first of the world
  std::optional<parallel::StoreUse> store;  ///< of `kvstore`
  /// Of a pipeline, whose stages are taken to be as long as each other.
  std::optional<parallel::PipelineFigures> pipeline = {};
  /// Where the next step makes the update of this one, of each rank; the calls and operators of `ranks` are those of a
  /// step that ends with its own. Empty otherwise.
  std::vector<FollowingSteps> following = {};
  /// Where replicas become their mean after some steps: `ranks` are of such a step, and `between` of one without it;
  /// empty where there is none.
  std::optional<parallel::AveragingSteps> averaging = {};
  std::vector<PlannedRank> between = {};
};

struct StepRequest {
  /// What strategies are made from; `team.devices` are those of the world's first ranks. With `team.has_timelines` the
  /// parts of a step are told of, in the order in which they begin, what others lie within before these.
  parallel::StrategyContext context;
  std::function<std::unique_ptr<parallel::Strategy>(const parallel::StrategyContext&)> make;
  std::shared_ptr<const Dataset> data;
  /// How its batches are loaded; asked once.
  std::function<BatchLoaderOptions(parallel::Strategy&)> loader;
  /// Seconds of an operator, for a pipeline that is cut by them; see LoggedWorld.
  std::function<double(const OperatorCost&)> operator_s = {};
  /// The processes of the world, the first of which has the devices of `context`: one a host.
  WorldShape world = WorldShape({1});
};

/// Runs some steps of the strategy itself over devices that compute nothing, of which no more than the list names are
/// made: of a larger world the first ranks stand for all; of pipelines these have to be whole ones. Blocks for as long
/// as the operators take to be logged, which is milliseconds a step.
PlannedStep plan_step(const StepRequest& request);

}  // namespace dptrain::plan
