#pragma once

#include <memory>
#include <vector>

#include "parallel/pass_agreements.h"
#include "parallel/pipeline_cut.h"
#include "parallel/pipeline_figures.h"
#include "parallel/pipeline_schedule.h"
#include "parallel/pipeline_stages.h"
#include "parallel/replicated_strategy.h"
#include "parallel/stage_facts.h"
#include "parallel/steps_under_way.h"

namespace dptrain::parallel {

struct PipelineOptions {
  CutRequest cut = {};
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_back;
  int stages_per_device = 1;
  int64_t micro_batches = 0;  ///< per step, in addition to `accumulate`
  int replicas = 1;
};

/// A model cut into stages, one or several per device; the micro-batches of a step go through them one after the other
/// (model_parallel). With several replicas of such a pipeline, each has its part of every micro-batch, and gradients
/// are added device by device (hybrid).
///
/// Devices are listed replica by replica. A parameter that stages on two devices use is stored on both, and its
/// gradient is added up between them. The devices of a replica may be in several processes.
class PipelineStrategy final : public ReplicatedStrategy {
 public:
  /// Measures the model first if the cut is automatic. If there are several processes, rank 0's measures for all.
  /// Throws an error with exit code 78 if the model can't be cut as requested.
  static std::unique_ptr<Strategy> make(const StrategyContext& context, const PipelineOptions& options);

  PipelineStrategy(const StrategyContext& context, const PipelineOptions& options, const PipelineCut& cut);

  /// One device for each replica that has a stage in this process: the device of its first stage, which reads the
  /// images. It is null if another process has that device.
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
  /// Devices per replica.
  int devices() const { return step_.devices(); }
  // For a rank of this process: its replica, and its device's number in that replica, from 0.
  int device_of(int rank) const { return (first_rank() + rank) % devices(); }
  int replica_of(int rank) const { return (first_rank() + rank) / devices(); }
  /// Whether a rank's device has the last stage.
  bool is_last(int rank) const { return device_of(rank) + 1 == devices(); }
  PipelineStages& stages(int rank) { return *stages_[static_cast<size_t>(rank)]; }
  StepParts parts_on(const Batch& batch, int rank) { return parts_of(batch, replica_of(rank) - first_part()); }
  /// A rank of the world.
  int rank_of(int replica, int device) const { return replica * devices() + device; }

  void make_stages(PlantedFault planted);
  std::vector<PipelineStages::Position> positions_on(int rank);
  void agree_on_recording(const StrategyContext& context);
  /// Returns the facts by rank of the world. Blocks.
  std::vector<StageFacts> exchange_facts();
  void form_groups(const StrategyContext& context);
  void find_ties(const std::vector<StageFacts>& facts);
  /// Gives a rank's device its work of a step, or of the step's rehearsal.
  void give_step(int rank, const PipelineStep& step, const StepParts& parts, bool rehearses);
  /// Adds other devices' gradients to those of a rank's stages.
  void add_other_gradients(int rank);
  /// Adds up a tensor over a communicator's ranks. In the rank's first step this runs apart from other work; see
  /// Communicator::begin_recordable.
  void add_up(int rank, Communicator& communicator, const Tensor& tensor);
  void share_weights(int rank) override;
  void swap_average(int rank) override;
  void broadcast_from_first_replica(int rank, const Tensor& tensor);
  /// Whether any process passes true.
  bool any_process(bool own);
  /// Merges blocks' results, given by rank, into block order. On the process that has rank 0 they are the results of
  /// all ranks, elsewhere of its own ranks.
  std::vector<StepResults> in_order(std::vector<std::vector<StepResults>> of_ranks);
  /// The first replica's state, on the process that has rank 0. With `everywhere`, the other processes get the state of
  /// their own stages.
  TrainingState joined(bool everywhere, const std::function<TrainingState(Replica&)>& state_of);
  /// Returns the stages' times by rank of the world, on the process that has rank 0; nothing elsewhere.
  std::vector<std::vector<StageTimes>> take_times_of_all();

  /// A rank's communicators for sums with other devices of its replica.
  struct Sums {
    Communicator* of_parts = nullptr;  ///< all of its replica's ranks; null unless updates need all of them
    struct Tie {
      const Parameter* parameter;
      Communicator* communicator;  ///< of the devices that use the parameter
    };
    std::vector<Tie> ties = {};  ///< ordered by name, so that all ranks add in the same order
  };

  PipelineCut cut_;
  int replicas_;
  PipelineStep step_;  ///< the step with the most micro-batches so far
  int64_t flush_;
  bool averages_weights_;
  bool shares_statistics_ = false;                       ///< some stage's passes share batch statistics
  std::vector<std::unique_ptr<PipelineStages>> stages_;  ///< by rank
  std::vector<Sums> sums_;                               ///< by rank
  std::vector<char> has_stepped_;                        ///< by rank
  PassAgreements agreements_;
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
