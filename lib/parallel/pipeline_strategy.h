#pragma once

#include <memory>
#include <vector>

#include "parallel/pipeline_cut.h"
#include "parallel/pipeline_figures.h"
#include "parallel/pipeline_schedule.h"
#include "parallel/pipeline_stages.h"
#include "parallel/recording_agreement.h"
#include "parallel/replicated_strategy.h"
#include "parallel/stage_facts.h"
#include "parallel/steps_under_way.h"

namespace dptrain::parallel {

struct PipelineOptions {
  CutRequest cut = {};
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_back;
  int stages_per_device = 1;
  int64_t micro_batches = 0;  ///< of a step, beside those of `accumulate`
  int replicas = 1;
};

/// A model cut into stages, one a device or several, which the micro-batches of a step go through one behind the other
/// (model_parallel); or several replicas of that, each with its part of every micro-batch, whose gradients are added
/// device by device (hybrid). Devices are listed replica by replica. A parameter that stages of two devices use lives
/// on both, and its gradient is added up between them. The devices of a replica may be of several processes.
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
  CommWays sum_ways() override { return replicas_ > 1 ? same_stages_communicator(0).ways() : CommWays(); }

 private:
  /// Of a replica.
  int devices() const { return step_.devices(); }
  // Of a rank of this process: its device's number in its replica, from 0.
  int device_of(int rank) const { return (first_rank() + rank) % devices(); }
  int replica_of(int rank) const { return (first_rank() + rank) / devices(); }
  /// Whether it has the last stage.
  bool is_last(int rank) const { return device_of(rank) + 1 == devices(); }
  PipelineStages& stages(int rank) { return *stages_[static_cast<size_t>(rank)]; }
  StepParts parts_on(const Batch& batch, int rank) { return parts_of(batch, replica_of(rank) - first_part()); }
  /// Of the world.
  int rank_of(int replica, int device) const { return replica * devices() + device; }

  void make_stages(PlantedFault planted);
  std::vector<PipelineStages::Position> positions_on(int rank);
  void agree_on_recording(const StrategyContext& context);
  /// By rank of the world. Blocks.
  std::vector<StageFacts> exchange_facts();
  void form_groups(const StrategyContext& context);
  void find_ties(const std::vector<StageFacts>& facts);
  /// What a rank's device is given in a step, or in its rehearsal.
  void give_step(int rank, const PipelineStep& step, const StepParts& parts, bool rehearses);
  /// The gradients of a rank's stages, complete in what other devices add to them.
  void add_other_gradients(int rank);
  /// A rank's tensor over those of a communicator; in its first step apart, as Communicator::begin_recordable has it.
  void add_up(int rank, Communicator& communicator, const Tensor& tensor);
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
  /// By rank of the world, of each its stages', on the process that has rank 0; nothing elsewhere.
  std::vector<std::vector<StageTimes>> take_times_of_all();

  /// A rank's end of what it adds up with other devices of its replica.
  struct Sums {
    Communicator* of_parts = nullptr;  ///< the same replica's, where updates need all of them
    struct Tie {
      const Parameter* parameter;
      Communicator* communicator;  ///< of the devices that use it
    };
    std::vector<Tie> ties = {};  ///< by name, so in one order on all ranks
  };

  PipelineCut cut_;
  int replicas_;
  PipelineStep step_;  ///< of the most micro-batches so far
  int64_t flush_;
  bool is_of_text_;
  bool averages_weights_;
  bool shares_statistics_ = false;                       ///< some stage does, in its passes
  std::vector<std::unique_ptr<PipelineStages>> stages_;  ///< by rank
  std::vector<Sums> sums_;                               ///< by rank
  std::vector<char> has_stepped_;                        ///< by rank
  /// By rank, where ranks record at the same time; else empty.
  std::vector<std::unique_ptr<RecordingAgreement>> agreements_;
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
