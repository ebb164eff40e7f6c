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
#include "parallel/store_use.h"
#include "parallel/strategy.h"
#include "parallel/strategy_context.h"
#include "plan/model_layers.h"

namespace dptrain::plan {

/// A part of a rank's work: "forward 2", "layer1.0", "optimizer". Parts may contain other parts.
struct PlannedPart {
  std::string name;
  size_t begin = 0;  ///< index of its first operator
  size_t end = 0;    ///< one past its last operator; greater than `begin`
};

/// What a rank holds in memory during training, and what it computes and sends in one step.
struct PlannedRank {
  DeviceId device;
  int64_t samples = 0;
  int64_t peak_bytes = 0;
  MemoryCounts memory_at_peak;
  CommCounts sent;
  std::vector<OperatorCost> operators;  ///< in order
  CallLog calls;                        ///< in order; the calls of all ranks form the collectives
  std::vector<PlannedPart> parts = {};  ///< see StepRequest::context

  double flops() const;
};

/// What a rank does in consecutive steps, beginning with one that has no update before it.
struct FollowingSteps {
  std::vector<OperatorCost> operators;  ///< in order
  CallLog calls;                        ///< in order
  std::vector<PlannedPart> parts = {};  ///< see StepRequest::context
  /// What the rank has computed and started by the end of each step; all steps except the last are complete.
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
  std::vector<PlannedRank> ranks;           ///< the first ranks of the world
  std::optional<parallel::StoreUse> store;  ///< of the strategy `kvstore`
  /// Set for a pipeline; its stages are assumed to take equally long.
  std::optional<parallel::PipelineFigures> pipeline = {};
  /// By rank, for strategies in which the next step makes the update of this one; empty for others. The calls and
  /// operators of `ranks` are then those of a step that ends with its own update.
  std::vector<FollowingSteps> following = {};
  /// Set if replicas are averaged after some steps: `ranks` then describe a step with averaging, and `between` a step
  /// without. `between` is empty if there is no such step.
  std::optional<parallel::AveragingSteps> averaging = {};
  std::vector<PlannedRank> between = {};
};

struct StepRequest {
  /// The context that strategies are made from; `team.devices` are the devices of the world's first ranks. With
  /// `team.has_timelines` the result contains the parts of a step, in the order in which they begin; a part comes
  /// before the parts that it contains.
  parallel::StrategyContext context;
  std::function<std::unique_ptr<parallel::Strategy>(const parallel::StrategyContext&)> make;
  std::shared_ptr<const Dataset> data;
  /// Returns how the strategy's batches are loaded; called once.
  std::function<BatchLoaderOptions(parallel::Strategy&)> loader;
  /// Returns the seconds of an operator, for a pipeline whose cut depends on them; see LoggedWorld.
  std::function<double(const OperatorCost&)> operator_s = {};
  /// The processes of the world, one per host. The first process has the devices of `context`.
  WorldShape world = WorldShape({1});
};

/// Runs some steps of the strategy itself over devices that compute nothing. No more devices are made than the context
/// lists: the first ranks stand for all ranks of a larger world, and for pipelines they must form whole pipelines.
/// Blocks until the operators are logged, which takes milliseconds per step.
PlannedStep plan_step(const StepRequest& request);

}  // namespace dptrain::plan
