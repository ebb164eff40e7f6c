#pragma once

#include <memory>
#include <optional>

#include "data/batch_loader.h"
#include "models/model_registry.h"
#include "nn/model.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "optim/parameter_norms.h"
#include "optim/weight_average.h"
#include "parallel/gradient_buckets.h"
#include "parallel/injected_fault.h"
#include "parallel/part_reader.h"
#include "parallel/phase_clock.h"
#include "parallel/shard_runs.h"
#include "parallel/step_exchange.h"
#include "parallel/step_numbers.h"
#include "parallel/step_observer.h"
#include "parallel/step_recorder.h"
#include "parallel/text_numbers.h"
#include "parallel/training_state.h"
#include "tensor/precision.h"

namespace dptrain::parallel {

/// What a step recomputes in its backward pass instead of keeping it.
enum class Recompute {
  automatic,  ///< `batch_norm` on CPU workers, where the extra pass over memory has no measurable cost; else `none`
  none,
  batch_norm,  ///< the outputs of batch norms, on every device
};
/// The tape mode in which training records its forward passes on this device.
Tape::Mode recording_of(Recompute recompute, const Device& device);

class DeferredUpdate;
class ShardedReplica;
class ShardTeam;

/// What every replica of a model is constructed from; the same on all devices.
struct ReplicaSpec {
  models::ModelSpec model;
  models::ModelInput input;
  ops::ConvolutionAlgorithm convolution = ops::ConvolutionAlgorithm::automatic;
  nn::InitializationOptions initialization;
  optim::OptimizerSpec optimizer;
  std::optional<double> clip_norm = {};      ///< the norm that gradients are clipped to
  std::optional<double> average_decay = {};  ///< decay of the weights' moving average, which evaluations use
  double label_smoothing = 0;                ///< of the training losses
  Precision precision = Precision::fp32;
  Recompute recompute = Recompute::automatic;
  /// Steps that a device is given ahead, including the one that it works on. The same limit holds for what a rank's
  /// thread gives its GPU ahead.
  int steps_in_flight = 2;
  /// Replicas are on devices of several kinds: all then use the same memory layout for weights and gradients.
  bool mixed_devices = false;
  nn::StageRanges stages = {{}};  ///< the stages of the model that this device holds
  /// Logical shards of a batch that this device computes, each with one thread. If empty, it computes its part as a
  /// whole.
  ShardRun shards = {};
  /// With shards: keep the running statistics of the batch's first shard. The default keeps their mean, weighted by
  /// samples.
  bool first_statistics = false;
  StepObserver* observer = nullptr;
};

/// The size of a step, over all micro-batches and ranks.
struct StepTotals {
  std::vector<int64_t> counts = {};  ///< labels of each output that aren't ignored: its losses are divided by this
  int64_t samples = 0;
  /// A factor on the gradients, which are otherwise those of the mean loss over the whole step.
  double gradient_factor = 1;

  static StepTotals of(const Batch& batch) { return {.counts = batch.counts, .samples = batch.samples}; }
};

/// A rank's part of each micro-batch of a step, in order.
using StepParts = std::vector<const BatchPart*>;

/// The size of the results that a rank keeps of a step; by default those of its own parts.
struct KeptResults {
  std::vector<OutputRows> outputs;
  int64_t samples = 0;

  static KeptResults of(const StepParts& parts);
};

/// What a replica does besides computing gradients.
struct ReplicaDuties {
  bool places = true;             ///< it places its model; if false, its creator does
  bool updates = true;            ///< it has an optimizer
  bool averages = false;          ///< it keeps the weights' moving average, if there is one
  bool measures_squares = false;  ///< it measures squared norms of gradients; see gradient_noise.h
  /// With measures_squares: also that of the summed gradients that it updates with. If all ranks update with the same
  /// ones, one of them does so.
  bool measures_sums = false;
  /// Set if nobody needs the gradients in one piece, or after the update that follows the backward pass. On a CPU
  /// worker these buckets of gradients then have memory only until that update. (A GPU's recorded step keeps its memory
  /// anyway.)
  std::optional<BucketOptions> gradients_held_by = {};
};

/// Adds up a small tensor over the devices that hold the other parts of a replica's model, in place on all of them.
using SumOverPipeline = std::function<void(const Tensor&)>;

/// A model, or a part of one, and its optimizer on one device. Used by the device's rank thread.
///
/// A step has three parts. `begin_step` takes the rank's parts of a batch, other members give the device its work, and
/// `end_step` ends the step. The results come out of the exchange once the device is done.
class Replica {
 public:
  Replica(Device& device, const ReplicaSpec& spec, const ReplicaDuties& duties);
  /// A replica that computes with the weights and the loss scale of `lender`, in memory that `device` can read; see
  /// nn::Model::place_beside.
  Replica(Device& device, const ReplicaSpec& spec, const Replica& lender);
  ~Replica();

  Device& device() const { return device_; }
  nn::Model& model() { return *model_; }
  const nn::Model& model() const { return *model_; }
  /// The number of columns of each output.
  const std::vector<int64_t>& output_widths() const { return output_widths_; }
  PhaseClock& clock() { return clock_; }
  StepExchange& exchange() { return exchange_; }
  /// Reads the samples of the step that was begun.
  PartReader& reader() { return reader_; }
  /// Element type of the activations.
  DType dtype() const { return compute_dtype(precision_); }

  /// Begins a step on these samples.
  void begin_step(const StepParts& parts, const StepNumbers& numbers, const StepTotals& totals) {
    begin_step(parts, numbers, totals, has_shards() ? KeptResults() : KeptResults::of(parts));
  }
  void begin_step(const StepParts& parts, const StepNumbers& numbers, const StepTotals& totals,
                  const KeptResults& kept);
  /// Ends the step, once all of its device work has been given.
  void end_step();
  /// Makes training steps suffer the injected faults that name this rank of the world.
  void suffer(const std::vector<InjectedFault>& faults, int world_rank);
  /// Whether it computes logical shards. Its parts of a step are then those of its first shard, then of its second, and
  /// so on.
  bool has_shards() const { return shards_ != nullptr; }
  /// The device into which each of its parts of a micro-batch is loaded.
  std::vector<Device*> part_devices();
  /// Returns the results of finished steps, oldest first. With `all` it first waits for the steps under way.
  std::vector<StepResults> take_results(bool all);

  /// Whether a step can be recorded, if all ranks record the exchanges of their batch norms together.
  bool can_record_with_others() const {
    return (!shares_statistics() || statistics_->can_be_recorded()) && observer_ == nullptr;
  }
  /// Whether run_section records on devices that can record.
  bool records_steps() const { return can_record_with_others() && (!shares_statistics() || records_with_others_); }
  /// Runs `give`, or replays what was recorded of it for parts of these sizes; see StepRecorder. The section `passes`
  /// contains the step's forward and backward passes. `parts`: those that the step was begun with. `signature`: further
  /// values that must match for a replay.
  StepRecorder::How run_section(StepRecorder::Section section, const StepParts& parts, const StepRecorder::Give& give,
                                StepRecorder::Signature signature = {});

  /// Everything that decides what work a step on these parts gives to the device, apart from the kind of device.
  StepRecorder::Signature step_signature(const StepParts& parts) const;
  /// Counts a step that a PassRecorder recorded or replayed, instead of run_section.
  void count_graph_step() { ++graph_steps_; }
  /// Returns the number of steps whose passes were recorded or replayed since the last call.
  int64_t take_graph_steps() { return std::exchange(graph_steps_, 0); }

  /// Makes this replica record together with other ranks; `agree`: see StepRecorder.
  void record_with_others(StepRecorder::Agree agree) {
    records_with_others_ = true;
    recorder_.agree_by(std::move(agree));
  }

  /// Makes training passes take batch statistics over all devices that share a batch. From then on a pass without
  /// samples is done like any other pass, so that all devices make the same calls.
  void take_statistics_over(autograd::SumOverDevices& devices) { statistics_ = &devices; }
  bool shares_statistics() const { return statistics_ != nullptr; }

  /// Lets `updates` make each step's update during the next step. Not possible with shards, a clipped gradient norm or
  /// fp16: their updates need a value computed from all gradients.
  void defer_updates_by(DeferredUpdate& updates) { deferred_ = &updates; }

  /// Marks the model as sharded: other ranks hold parts of it, and `sharded` has placed it. Not possible with
  /// logical shards.
  void deal_out_by(std::unique_ptr<ShardedReplica> sharded);
  ShardedReplica& sharded() { return *sharded_; }

  /// The tape mode of training steps.
  Tape::Mode recording() const { return recording_; }
  /// Runs a forward pass in training over some of the step's samples. Records on `tape` and returns the model's
  /// outputs.
  std::vector<Variable> forward(Tape& tape, const ModelSamples& samples) {
    return forward(tape.input(samples.x), samples);
  }
  /// Runs the forward pass through the range `stages`, which this replica holds. `x` is the output of the stages
  /// before.
  std::vector<Variable> forward(const Variable& x, const ModelSamples& samples, const nn::StageRange& stages = {});
  /// Keeps the losses and hits of the outputs, whose rows begin at `rows`. Returns the roots of the backward pass.
  std::vector<Tape::Root> losses_of(const std::vector<Variable>& outputs, const std::vector<Tensor>& targets,
                                    const std::vector<int64_t>& rows);

  /// Called with the parameters that no loss depends on.
  using UnusedHook = std::function<void(const std::vector<const Parameter*>&)>;
  /// Computes the loss and the gradients of the step's samples, and keeps their results. Gradients of several parts are
  /// added up.
  ///
  /// `ready` is called once for each parameter, when its gradient is complete. A parameter that no loss depends on gets
  /// a gradient of zero, and so do all parameters if there are no samples. `ready` is called for these parameters at
  /// the end. Before that, if there are samples, `unused` is called with the parameters that got no gradient from them,
  /// if there are any.
  void forward_backward(const StepParts& parts, const GradientReadyHook& ready, const UnusedHook& unused = {});

  /// Measures the samples per second of forward and backward passes over the data set's first `samples` samples. Leaves
  /// weights and running statistics unchanged. Blocks.
  double measure_speed(const Dataset& dataset, int64_t samples);

  /// Sets gradients to zero that no pass of this step has written.
  void complete_gradients();

  /// Makes the optimizer's step from complete gradients. In fp16, a step whose gradients overflow changes only the loss
  /// scale. `sum`: for a part of a model, so that all parts clip alike and skip the same steps.
  void update(const SumOverPipeline& sum = {});
  // The following members are for updates that are driven from outside the replica:
  /// The step in the form that optimizers take. Gradients haven't been examined for it.
  optim::OptimizerStep optimizer_step() const;
  /// The loss scale in fp16; null in other precisions.
  optim::LossScale* loss_scale() { return loss_scale_ ? &*loss_scale_ : nullptr; }
  /// Makes the optimizer's step for a run of parameters. Their gradients are forgotten after it.
  void update_run(const nn::ParameterRun& run, const optim::OptimizerStep& step);
  /// Does what follows the update of all weights: the moving average and the loss scale.
  void end_update();
  /// Returns a function that adds the squares of gradients to a sum, if squares are measured.
  std::function<void(const Tensor&)> measure_of(StepExchange::Squares sum) {
    return [this, sum](const Tensor& gradients) { exchange_.add_squares(sum, gradients); };
  }
  /// Ends a step's device work: `update`, from complete gradients and with time stamps, then publishing the step's
  /// results.
  void update_and_publish(const std::function<void()>& update);
  /// For fp16: the factor that losses are multiplied by, and the whole block of the loss scale. Undefined in other
  /// precisions.
  Tensor loss_factor() const { return loss_scale_ ? loss_scale_->factor() : lent_factor_; }
  Tensor loss_scale_block() const { return loss_scale_ ? loss_scale_->block() : Tensor(); }
  /// The number of steps that fp16 has skipped so far. Blocks.
  int64_t skipped_steps() const { return loss_scale_ ? loss_scale_->numbers().skipped : 0; }

  /// Flat buffers in the order of the weights; empty if this replica doesn't update them.
  std::vector<optim::OptimizerState> optimizer_state() const;
  /// `read`: for weights that other ranks hold, in the form that nn::state_dict takes.
  TrainingState training_state(const nn::ReadParameter& read = {});
  /// Loads what this replica keeps of a checkpoint itself. Loads weights unless the model is sharded.
  void restore(const TrainingState& state);

  /// Returns loss and hits of a block of test samples, computed with the running statistics. Blocks. `together`: if
  /// replicas evaluate together, the samples in all their current blocks.
  StepResults evaluate(const BatchPart& block, int64_t together = 0);
  /// Replaces a call of `evaluate` if this replica has no block left while other replicas have one.
  void evaluate_nothing(int64_t together);
  /// Whether it evaluates with weights that other ranks hold. All replicas must then evaluate equally often.
  bool evaluates_with_others() const { return has_pass(); }
  /// Runs a forward pass over a block of test samples with the running statistics; `x` as in `forward`.
  std::vector<Variable> evaluation_outputs(const Variable& x, const ModelSamples& samples,
                                           const nn::StageRange& stages = {});
  /// Returns loss and hits from a block's outputs. Blocks.
  StepResults results_of(const std::vector<Variable>& outputs, const ModelSamples& samples, const BatchPart& block);

  /// The weights' moving average, if this replica keeps it; else null.
  optim::WeightAverage* average() { return average_ ? &*average_ : nullptr; }

 private:
  Replica(Device& device, const ReplicaSpec& spec);
  /// forward_backward for a replica with shards.
  void add_up_shards(const StepParts& parts, const GradientReadyHook& ready, const UnusedHook& unused);
  void report_unused(const UnusedHook& unused) const;

  /// What this rank keeps of a parameter between steps; undefined if other ranks keep all of it.
  Tensor own_weight(const Parameter& parameter) const;
  /// Whether weights are gathered during its passes.
  bool has_pass() const;
  /// Called before a step's first gradient is written: finishes a deferred update and forgets old gradients.
  void begin_gradients();
  /// Computes the gradients of one part. The step's first part overwrites old gradients; later parts add to them.
  void add_gradients(const BatchPart& part, const PartPlace& place, bool is_first, const GradientReadyHook& ready);

  Device& device_;
  Tape::Mode recording_;
  uint64_t seed_;
  std::vector<int64_t> output_widths_;
  Precision precision_;
  std::unique_ptr<nn::Model> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::LossScale> loss_scale_;
  Tensor lent_factor_;  ///< the lender's loss factor in fp16; undefined without a lender
  std::optional<optim::WeightAverage> average_;
  std::optional<double> clip_norm_;
  optim::ParameterNorms norms_;
  bool measures_sums_ = false;
  double label_smoothing_;
  autograd::SumOverDevices* statistics_ = nullptr;
  DeferredUpdate* deferred_ = nullptr;
  StepObserver* observer_;
  RankFaults faults_;
  StepNumbers numbers_;
  StepTotals totals_;
  PhaseClock clock_;
  StepExchange exchange_;
  PartReader reader_;
  StepRecorder recorder_;
  bool records_with_others_ = false;
  int64_t graph_steps_ = 0;
  std::unique_ptr<ShardTeam> shards_;
  std::unique_ptr<ShardedReplica> sharded_;  ///< null if the model isn't sharded
};

}  // namespace dptrain::parallel
