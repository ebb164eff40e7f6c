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
#include "parallel/step_observer.h"
#include "parallel/step_recorder.h"
#include "parallel/text_numbers.h"
#include "parallel/training_state.h"
#include "tensor/precision.h"

namespace dptrain::parallel {

/// What a step computes again in its backward pass instead of keeping it.
enum class Recompute {
  automatic,  ///< on CPU workers, outputs of batch norms: a pass over memory costs them no time that could be measured
  none,
  batch_norm,  ///< outputs of batch norms on every device
};
/// How a forward pass in training is recorded on such a device.
Tape::Mode recording_of(Recompute recompute, const Device& device);

class DeferredUpdate;
class ShardedReplica;
class ShardTeam;

/// What every replica of a model is made from; the same on all devices.
struct ReplicaSpec {
  models::ModelSpec model;
  models::ModelInput input;
  ops::ConvolutionAlgorithm convolution = ops::ConvolutionAlgorithm::automatic;
  nn::InitializationOptions initialization;
  optim::OptimizerSpec optimizer;
  std::optional<double> clip_norm = {};      ///< that gradients are brought down to
  std::optional<double> average_decay = {};  ///< of the weights' moving average, which evaluates
  double label_smoothing = 0;                ///< of the losses that are trained on
  Precision precision = Precision::fp32;
  Recompute recompute = Recompute::automatic;
  int steps_in_flight = 2;  ///< that a device is given ahead, and a GPU by its thread
  /// Devices of several kinds have replicas: their weights and gradients lie alike.
  bool mixed_devices = false;
  nn::StageRanges stages = {{}};  ///< of the model, that the device has
  /// Logical shards of a batch that the device computes, each by one thread; of none it computes its part as a whole.
  ShardRun shards = {};
  /// Of shards: the running statistics of the first one of all are kept; by default their mean, weighted by samples.
  bool first_statistics = false;
  StepObserver* observer = nullptr;
};

struct StepNumbers {
  int64_t step = 0;   ///< from 1
  int64_t epoch = 0;  ///< from 1
  double learning_rate = 0;
};

/// What a step is of, over all micro-batches and ranks.
struct StepTotals {
  std::vector<int64_t> counts = {};  ///< labels of each output that count: what its losses are divided by
  int64_t samples = 0;
  double gradient_factor = 1;  ///< gradients are those of the losses' mean over all of it, times this

  static StepTotals of(const Batch& batch) { return {.counts = batch.counts, .samples = batch.samples}; }
};

/// What a rank works on in one step: its part of each micro-batch, in order.
using StepParts = std::vector<const BatchPart*>;

/// What results a rank keeps of a step: by default of its own parts.
struct KeptResults {
  std::vector<OutputRows> outputs;
  int64_t samples = 0;

  static KeptResults of(const StepParts& parts);
};

/// What a replica does beside computing gradients.
struct ReplicaDuties {
  bool places = true;     ///< its model; else whoever makes the replica does
  bool updates = true;    ///< it has an optimizer
  bool averages = false;  ///< it keeps the weights' moving average, where there is one
  /// Nobody needs its gradients in one piece, or but from a backward pass to the update that follows: these buckets of
  /// them then have memory no longer than that, on a CPU worker. (What a GPU's recorded step uses it keeps anyway.)
  std::optional<BucketOptions> gradients_held_by = {};
};

/// Adds up a small tensor over the devices that have the other parts of a replica's model, in place on all of them.
using SumOverPipeline = std::function<void(const Tensor&)>;

/// A model, or a part of one, with its optimizer on one device. Used by the device's rank thread.
///
/// A step is begun with a rank's parts of a batch, does some of what follows on the device, and is ended; its results
/// come out of the exchange once the device is done.
class Replica {
 public:
  Replica(Device& device, const ReplicaSpec& spec, const ReplicaDuties& duties);
  /// One that computes with the weights and the loss scale of `lender`, which lie where `device` reads them; see
  /// nn::Model::place_beside.
  Replica(Device& device, const ReplicaSpec& spec, const Replica& lender);
  ~Replica();

  Device& device() const { return device_; }
  nn::Model& model() { return *model_; }
  const nn::Model& model() const { return *model_; }
  /// Columns of each output.
  const std::vector<int64_t>& output_widths() const { return output_widths_; }
  PhaseClock& clock() { return clock_; }
  StepExchange& exchange() { return exchange_; }
  /// Reads the samples of a step that was begun.
  PartReader& reader() { return reader_; }
  /// Of activations.
  DType dtype() const { return compute_dtype(precision_); }

  /// Begins a step on these samples.
  void begin_step(const StepParts& parts, const StepNumbers& numbers, const StepTotals& totals) {
    begin_step(parts, numbers, totals, has_shards() ? KeptResults() : KeptResults::of(parts));
  }
  void begin_step(const StepParts& parts, const StepNumbers& numbers, const StepTotals& totals,
                  const KeptResults& kept);
  /// Ends it, once all that the device does in it has been given.
  void end_step();
  /// From now on its training suffers those of all faults that are of a rank of the world.
  void suffer(const std::vector<InjectedFault>& faults, int world_rank);
  /// Whether it computes logical shards; its parts of a step are then those of its first shard, of its second...
  bool has_shards() const { return shards_ != nullptr; }
  /// Where the samples of each of its parts of a micro-batch are loaded.
  std::vector<Device*> part_devices();
  /// Results of steps that are done, oldest first; with `all` it waits for those under way.
  std::vector<StepResults> take_results(bool all);

  /// Whether a step's work may be recorded: what batch norms exchange within it by all ranks together, if at all.
  bool can_record_with_others() const {
    return (!shares_statistics() || statistics_->can_be_recorded()) && !has_shards() && observer_ == nullptr;
  }
  /// Whether run_section records where the device can.
  bool records_steps() const { return can_record_with_others() && (!shares_statistics() || records_with_others_); }
  /// Does `give`, or runs what was recorded of it for parts of these sizes: see StepRecorder. Part 0 has the step's
  /// passes. `parts` are those the step was begun with. `signature`: whatever else it is to be equal in.
  StepRecorder::How run_section(StepRecorder::Section section, const StepParts& parts, const StepRecorder::Give& give,
                                StepRecorder::Signature signature = {});

  /// All that decides what work a step on these parts gives to the device, its kind aside.
  StepRecorder::Signature step_signature(const StepParts& parts) const;
  /// A step was replayed by a PassRecorder, not by run_section.
  void count_graph_step() { ++graph_steps_; }
  /// Steps whose passes were recorded or replayed since the last call.
  int64_t take_graph_steps() { return std::exchange(graph_steps_, 0); }

  /// Other ranks record with this one; `agree`: see StepRecorder.
  void record_with_others(StepRecorder::Agree agree) {
    records_with_others_ = true;
    recorder_.agree_by(std::move(agree));
  }

  /// From now on training passes take batch statistics over all devices that share a batch. A pass without samples is
  /// then a pass like any other, so that all devices make the same calls.
  void take_statistics_over(autograd::SumOverDevices& devices) { statistics_ = &devices; }
  bool shares_statistics() const { return statistics_ != nullptr; }

  /// From now on a step's update is made by `updates`, in the course of the next step. Not with shards, a norm of all
  /// gradients or fp16, whose updates begin with what all gradients have come to.
  void defer_updates_by(DeferredUpdate& updates) { deferred_ = &updates; }

  /// From now on other ranks have parts of its model, which `sharded` has placed. Not with shards.
  void deal_out_by(std::unique_ptr<ShardedReplica> sharded);
  ShardedReplica& sharded() { return *sharded_; }

  /// How training steps record.
  Tape::Mode recording() const { return recording_; }
  /// A forward pass in training over some of the step's samples; records on `tape` and returns the model's outputs.
  std::vector<Variable> forward(Tape& tape, const ModelSamples& samples) {
    return forward(tape.input(samples.x), samples);
  }
  /// The same from `x`, what the stages before have made of them, through a range that the replica has.
  std::vector<Variable> forward(const Variable& x, const ModelSamples& samples, const nn::StageRange& stages = {});
  /// Keeps losses and hits of outputs whose rows begin at `rows`; returns what backward begins from.
  std::vector<Tape::Root> losses_of(const std::vector<Variable>& outputs, const std::vector<Tensor>& targets,
                                    const std::vector<int64_t>& rows);

  /// Called with the parameters that no loss depends on.
  using UnusedHook = std::function<void(const std::vector<const Parameter*>&)>;
  /// Loss and gradients of the step's samples; keeps their results. Gradients of several parts are added up. `ready` is
  /// called once for each parameter as its gradient is completed. Parameters that the losses don't depend on, and all
  /// of them with no samples, have a gradient of zero; `ready` is called for them at the end, `unused` before, with
  /// those that samples left without one, if there are any.
  void forward_backward(const StepParts& parts, const GradientReadyHook& ready, const UnusedHook& unused = {});

  /// Samples a second of forward and backward passes over the data set's first `samples`. Leaves weights and running
  /// statistics as they are. Blocks.
  double measure_speed(const Dataset& dataset, int64_t samples);

  /// Makes the gradients zero that no pass of this step has written.
  void complete_gradients();

  /// The optimizer's step, from complete gradients. In fp16 a step whose gradients overflow changes nothing but the
  /// loss scale. `sum`: of a part of a model, so that all its parts clip, and skip, alike.
  void update(const SumOverPipeline& sum = {});
  // The same where others update the weights:
  /// The step as optimizers see it, gradients not looked at.
  optim::OptimizerStep optimizer_step() const;
  /// Of fp16; null in other precisions.
  optim::LossScale* loss_scale() { return loss_scale_ ? &*loss_scale_ : nullptr; }
  /// The optimizer's step over a run of parameters, from their gradients, which are forgotten then.
  void update_run(const nn::ParameterRun& run, const optim::OptimizerStep& step);
  /// What follows on the update of all weights.
  void end_update();
  /// The end of a step's work on the device, from complete gradients: `update`, timed, and the step's results.
  void update_and_publish(const std::function<void()>& update);
  /// fp16's, undefined in other precisions: what losses are multiplied by, and all of it.
  Tensor loss_factor() const { return loss_scale_ ? loss_scale_->factor() : lent_factor_; }
  Tensor loss_scale_block() const { return loss_scale_ ? loss_scale_->block() : Tensor(); }
  /// Steps that fp16 skipped so far. Blocks.
  int64_t skipped_steps() const { return loss_scale_ ? loss_scale_->numbers().skipped : 0; }

  /// Flat, as the weights lie; nothing where it doesn't update them.
  std::vector<optim::OptimizerState> optimizer_state() const;
  /// `read`: of weights that others have, as nn::state_dict takes it.
  TrainingState training_state(const nn::ReadParameter& read = {});
  /// What of a checkpoint it keeps itself; weights where it places its model.
  void restore(const TrainingState& state);

  /// Loss and hits of a block of test samples, by the running statistics. Blocks. `together`: samples of all replicas'
  /// blocks, where they evaluate with others.
  StepResults evaluate(const BatchPart& block, int64_t together = 0);
  /// In the place of that, where others have a block more.
  void evaluate_nothing(int64_t together);
  /// Whether it evaluates with weights that others have, so that all are to do so as often.
  bool evaluates_with_others() const { return has_pass(); }
  /// A forward pass over a block of test samples, by the running statistics; `x` as in `forward`.
  std::vector<Variable> evaluation_outputs(const Variable& x, const ModelSamples& samples,
                                           const nn::StageRange& stages = {});
  /// Loss and hits of what a block's samples have come out as. Blocks.
  StepResults results_of(const std::vector<Variable>& outputs, const ModelSamples& samples, const BatchPart& block);

  /// The weights' moving average, where this replica keeps it.
  optim::WeightAverage* average() { return average_ ? &*average_ : nullptr; }

 private:
  Replica(Device& device, const ReplicaSpec& spec);
  /// The same as forward_backward, by shards.
  void add_up_shards(const StepParts& parts, const GradientReadyHook& ready, const UnusedHook& unused);
  void report_unused(const UnusedHook& unused) const;

  /// What it keeps of a parameter from step to step; undefined where others keep all of it.
  Tensor own_weight(const Parameter& parameter) const;
  /// Whether a pass gives it the weights that it is to compute with.
  bool has_pass() const;
  /// No gradient of this step has been written: ends the last update, and forgets what is left of it.
  void begin_gradients();
  /// The gradients of one part, added to what others left; of the step's first one, in place of what stands there.
  void add_gradients(const BatchPart& part, const PartPlace& place, bool is_first, const GradientReadyHook& ready);

  Device& device_;
  Tape::Mode recording_;
  uint64_t seed_;
  std::vector<int64_t> output_widths_;
  Precision precision_;
  std::unique_ptr<nn::Model> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::LossScale> loss_scale_;
  Tensor lent_factor_;  ///< that of a lender in fp16; undefined for others
  std::optional<optim::WeightAverage> average_;
  std::optional<double> clip_norm_;
  optim::ParameterNorms norms_;
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
  std::unique_ptr<ShardedReplica> sharded_;  ///< null where nothing is dealt out
};

}  // namespace dptrain::parallel
