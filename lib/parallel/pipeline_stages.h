#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/pass_recorder.h"
#include "parallel/pipeline_schedule.h"
#include "parallel/planted_fault.h"
#include "parallel/replica.h"
#include "parallel/stage_inbox.h"
#include "parallel/stage_laps.h"
#include "parallel/stage_link.h"

namespace dptrain::parallel {

/// A stage's times in its steps, as its rank's thread measured them. A GPU's times come from its own clock, in a few of
/// its steps; if it records, these are replayed steps.
struct StageTimes {
  double forward_s = 0;
  double backward_s = 0;          ///< without backward_weights_s
  double backward_weights_s = 0;  ///< passes of their own, for the gradients of weights
  double waiting_s = 0;           ///< for activations and gradients, until a pass could begin or end
  int64_t micro_batches = 0;

  StageTimes& operator+=(const StageTimes& other);
};

/// A device's stages of a pipeline. Each stage is a part of a model. It receives a micro-batch's activations from the
/// stage before and sends its output to the stage after it; gradients go the opposite way. On each stage, each
/// micro-batch has its own tape, from the received value to the sent one. Used by the device's rank thread.
class PipelineStages {
 public:
  /// A stage's number and its neighbors: the stages before and after it. A neighbor is empty at an end of the pipeline.
  struct Position {
    int stage = 0;
    nn::StageRange units = {};  ///< the stages of the model that form this stage
    std::optional<StageLink::Peer> previous = {};
    std::optional<StageLink::Peer> next = {};
  };
  /// `positions`: in order.
  PipelineStages(Replica& replica, const StageLink::Ends& ends, std::span<const Position> positions,
                 PlantedFault planted = PlantedFault::none);

  /// Makes a step on these parts. Calls `make` as PassRecorder::make_step does; it adds the gradients and makes the
  /// update. Its argument says whether this is a rehearsal, in which devices neither compute nor wait for each other.
  void make_step(const StepParts& parts, const std::function<void(bool rehearses)>& make);
  PassRecorder& recorder() { return recorder_; }
  // The following members are for `make`:
  /// Computes the gradients of a step's micro-batches and adds them up in the order of micro-batches. The replica's
  /// step has been begun with the same parts. `empty_too`: also makes passes for micro-batches without samples. By
  /// default this device and all others leave them out.
  void add_gradients(const PipelineStep& step, const StepParts& parts, bool empty_too);
  /// Test samples [begin, end).
  struct Block {
    int64_t begin = 0;
    int64_t end = 0;
  };
  /// Runs forward passes over blocks of test samples, in the order of `step`'s forward passes. `rows`: which rows of a
  /// text are evaluated. Returns the results by block number on the device with the last stage, and nothing elsewhere.
  std::vector<StepResults> evaluate(const PipelineStep& step, const Dataset& dataset, std::span<const Block> blocks,
                                    PredictedRows rows);

  /// Returns the times by stage since the last call. Blocks.
  std::vector<StageTimes> take_times();

 private:
  struct Stage {
    Stage(const Position& in_pipeline, size_t number, Device& device, const StageLink::Ends& ends);

    Position position;
    size_t number = 0;  ///< index among the device's stages
    std::optional<StageLink> previous;
    std::optional<StageLink> next;
    /// Whether gradients come back for the stage's output. They don't for the first stages of a model if these have no
    /// trained parameters. Known once a micro-batch has passed.
    std::optional<bool> is_answered;
    StageTimes times;
  };
  struct Underway {
    std::unique_ptr<Tape> tape;
    Variable input;   ///< without its value
    Variable output;  ///< in stages before the last; without its value
    Layout output_layout = Layout::plain;
    std::vector<Tape::Root> roots;  ///< in the last stage
    std::unique_ptr<CommWork> sending;
  };
  struct StepUnderway {
    const StepParts& parts;
    std::vector<PartPlace> places;                          ///< by part
    std::map<std::pair<int, int64_t>, Underway> under_way;  ///< by stage and micro-batch
    std::unique_ptr<CommWork> gradient;                     ///< the gradient that was sent back last
    const StageAction* next = nullptr;  ///< the next action that begins with a received value; null: none

    const BatchPart& part(const StageAction& action) const { return *parts[static_cast<size_t>(action.micro_batch)]; }
  };

  void forward(StepUnderway& step, const StageAction& action);
  void backward(StepUnderway& step, const StageAction& action);
  void backward_weights(StepUnderway& step, const StageAction& action);
  Stage& stage(int number);
  /// "forward 3" for the third micro-batch; "forward 3, stage 0" if the device has several stages.
  std::string pass_name(const char* kind, const StageAction& action) const;
  /// Identifies the form of a part's tensors to both ends of a boundary.
  static StageLink::Signature signature_of(const BatchPart& part, bool training);
  /// The device's number, which is also the number of its first stage.
  int device_number() const { return stages_.front().position.stage; }
  using ActionsOn = std::function<std::vector<StageAction>(int device)>;
  using PartOf = std::function<const BatchPart&(int64_t micro_batch)>;
  /// Lists what other devices will send here, in the order of their actions.
  void list_arrivals(const PipelineStep& step, const ActionsOn& actions_on, const PartOf& part_of, bool training);
  void end_arrivals();
  /// Receives the value that a pass begins with. Blocks.
  StageLink::Crossing receive(Stage& at, const StageLink& link, int64_t micro_batch);
  StageInbox& inbox_of(const StageLink& link) { return inboxes_.at(link.peer()); }
  /// Lets the value that the next action begins with arrive while the current action computes.
  void expect_next(const StepUnderway& step);
  void finish(Stage& at, std::unique_ptr<CommWork>& work);
  /// Has the device do a pass of a stage. Adds its time to `seconds`.
  Tensor do_pass(Stage& at, StageLaps::Of kind, double& seconds, const std::function<Tensor()>& give);
  // One pass on a received value. They return what is sent on, or back; undefined: nothing.
  Tensor compute_forward(const StepUnderway& step, const StageAction& action, Underway& own,
                         StageLink::Crossing received);
  Tensor compute_backward(StepUnderway& step, const StageAction& action, Underway& own, Tensor gradient);
  /// Whether a gradient comes for a stage's output; called once `is_answered` is known. The last stage always has the
  /// gradients of its losses.
  static bool gets_gradient(const Stage& at) { return !at.next || at.is_answered.value(); }
  void rehearse(const std::function<void(bool rehearses)>& make);

  Replica& replica_;
  PassRecorder recorder_;
  /// Number of steps that a GPU is timed in between two calls of `take_times`. Only a few are timed, because timing
  /// takes launches.
  static constexpr int64_t kLappedSteps = 8;
  std::optional<StageLaps> laps_;
  int64_t lapped_steps_ = 0;  ///< since the last `take_times`
  bool is_lapped_ = false;    ///< whether the current step is timed
  PlantedFault planted_;
  std::deque<Stage> stages_;           ///< in order
  std::map<int, StageInbox> inboxes_;  ///< by sending rank
};

}  // namespace dptrain::parallel
