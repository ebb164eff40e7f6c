#pragma once

#include <memory>
#include <vector>

#include "parallel/pipeline_cut.h"
#include "parallel/pipeline_figures.h"
#include "parallel/pipeline_schedule.h"
#include "parallel/pipeline_stage.h"
#include "parallel/replicated_strategy.h"
#include "parallel/stage_facts.h"
#include "parallel/steps_under_way.h"

namespace dptrain::parallel {

struct PipelineOptions {
  CutRequest cut = {};
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_back;
  int64_t micro_batches = 0;  ///< of a step, beside those of `accumulate`
  int replicas = 1;
};

/// A model cut into stages, one a device, which the micro-batches of a step go through one behind the other
/// (model_parallel); or several replicas of that, each with its part of every micro-batch, whose gradients are added
/// stage by stage (hybrid). Devices are listed replica by replica. A parameter that two stages use lives on both, and
/// its gradient is added up between them. The stages of a replica may lie in several processes.
class PipelineStrategy final : public ReplicatedStrategy {
 public:
  /// Measures the model first where the cut is left to that: of several processes that of rank 0 does, for all. Throws
  /// 78 where the model can't be cut so.
  static std::unique_ptr<Strategy> make(const StrategyContext& context, const PipelineOptions& options);

  PipelineStrategy(const StrategyContext& context, const PipelineOptions& options, const PipelineCut& cut);

  /// The parts of a batch are those of the replicas that have a stage here, whose images the first stage reads.
  std::vector<Device*> batch_devices() override;
  int first_part() override { return replica_of(0); }
  BatchSplit batch_split() override { return BatchSplit::even(replicas_); }
  void train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) override;
  std::optional<Score> evaluate(const Dataset& dataset, const EvaluationWatch& watch) override;
  std::vector<nn::NamedValues> state_dict() override;
  void for_each_state(const std::function<void(const nn::NamedValues&)>& take) override;
  TrainingState training_state() override;
  std::optional<PipelineFigures> take_pipeline_figures() override;
  std::optional<double> statistics_spread() override;
  CommWays sum_ways() override { return replicas_ > 1 ? part_communicator(0).ways() : CommWays(); }

 private:
  int stages() const { return step_.stages; }
  // Of a rank of this process.
  int stage_of(int rank) const { return (first_rank() + rank) % stages(); }
  int replica_of(int rank) const { return (first_rank() + rank) / stages(); }
  bool is_last(int rank) const { return stage_of(rank) + 1 == stages(); }
  PipelineStage& stage(int rank) { return *stages_[static_cast<size_t>(rank)]; }
  StepParts parts_on(const Batch& batch, int rank) { return parts_of(batch, replica_of(rank) - first_part()); }
  /// Of the world.
  int rank_of(int replica, int stage) const { return replica * stages() + stage; }

  void make_stages(PlantedFault planted);
  /// By rank of the world. Blocks.
  std::vector<StageFacts> exchange_facts();
  void form_groups(const StrategyContext& context);
  void find_ties(const std::vector<StageFacts>& facts);
  /// What a rank does in a step. It leaves out micro-batches that its replica has no samples of; but where batch norms
  /// of any stage share their statistics all replicas make the same passes.
  std::vector<StageAction> actions_on(int rank, const PipelineStep& step, const StepParts& parts) const;
  /// The gradients of a rank's stage, complete in what other devices add to them.
  void add_other_gradients(int rank);
  void share_weights(int rank) override;
  void swap_average(int rank) override;
  void broadcast_from_first_replica(int rank, const Tensor& tensor);
  /// Whether some process says so.
  bool any_process(bool own);
  /// What blocks have come out as, in their order, from those of each rank's replica: of all ranks on the process that
  /// has rank 0, elsewhere of its own.
  std::vector<StepResults> in_order(std::vector<std::vector<StepResults>> of_ranks);
  /// The first replica's state, on the process that has rank 0. `everywhere`: the others get that of the stages that
  /// they have.
  TrainingState joined(bool everywhere, const std::function<TrainingState(Replica&)>& state_of);
  /// By rank of the world, on the process that has rank 0; nothing elsewhere.
  std::vector<StageTimes> take_times_of_all();

  /// A rank's end of what it adds up with other stages.
  struct Sums {
    Communicator* of_parts = nullptr;  ///< the same replica's, where updates need all of them
    struct Tie {
      const Parameter* parameter;
      Communicator* communicator;  ///< of the stages that use it
    };
    std::vector<Tie> ties = {};  ///< by name, so in one order on all ranks
  };

  PipelineCut cut_;
  int replicas_;
  PipelineStep step_;  ///< of the most micro-batches so far
  int64_t flush_;
  bool averages_weights_;
  bool shares_statistics_ = false;                      ///< some stage does, in its passes
  std::vector<std::unique_ptr<PipelineStage>> stages_;  ///< by rank
  std::vector<Sums> sums_;                              ///< by rank
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
