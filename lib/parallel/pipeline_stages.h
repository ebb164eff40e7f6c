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

/// What a stage has spent in its steps, as its rank's thread has seen it; a GPU's by its own clock, of a few steps,
/// which it replays where it records.
struct StageTimes {
  double forward_s = 0;
  double backward_s = 0;          ///< without what is below
  double backward_weights_s = 0;  ///< in passes of their own
  double waiting_s = 0;           ///< for activations and gradients, until its pass could begin or end
  int64_t micro_batches = 0;

  StageTimes& operator+=(const StageTimes& other);
};

/// A device's stages of a pipeline: each is a part of a model that gets what the stage before has made of a
/// micro-batch, and gives what it makes of that to the stage behind; gradients go the way back. Each micro-batch has a
/// tape of its own on each stage, which begins with what was received and ends with what is sent. Used by the device's
/// rank thread.
class PipelineStages {
 public:
  /// A stage's number, and the stages before and behind it; nothing at an end of the pipeline.
  struct Position {
    int stage = 0;
    nn::StageRange units = {};  ///< the model's own stages that it is
    std::optional<StageLink::Peer> previous = {};
    std::optional<StageLink::Peer> next = {};
  };
  /// `positions`: in order.
  PipelineStages(Replica& replica, const StageLink::Ends& ends, std::span<const Position> positions,
                 PlantedFault planted = PlantedFault::none);

  /// Makes a step on these parts: calls `make`, which adds gradients and makes the update, as PassRecorder has it.
  /// `make` is told whether that is a rehearsal, in which devices neither compute nor wait for each other.
  void make_step(const StepParts& parts, const std::function<void(bool rehearses)>& make);
  PassRecorder& recorder() { return recorder_; }
  // For `make`:
  /// Gradients of a step's micro-batches, which the replica's step was begun with, added up by number. `empty_too`:
  /// also passes of micro-batches without samples are made, which are left out otherwise, here and on other devices.
  void add_gradients(const PipelineStep& step, const StepParts& parts, bool empty_too);
  /// Has the device do what isn't a pass, and the same in every step of these sizes: it is recorded as passes are.
  void record_alike(const std::function<void()>& give);
  /// Test samples from `begin` to before `end`.
  struct Block {
    int64_t begin = 0;
    int64_t end = 0;
  };
  /// Passes blocks of test samples on, in the order of `step`'s forward passes, with these rows of text predicted; the
  /// last stage returns what they have come out as, by number, the others nothing.
  std::vector<StepResults> evaluate(const PipelineStep& step, const Dataset& dataset, std::span<const Block> blocks,
                                    PredictedRows rows);

  /// By stage, since the last call. Blocks.
  std::vector<StageTimes> take_times();

 private:
  struct Stage {
    Stage(const Position& in_pipeline, size_t number, Device& device, const StageLink::Ends& ends);

    Position position;
    size_t number = 0;  ///< among the device's
    std::optional<StageLink> previous;
    std::optional<StageLink> next;
    /// Whether gradients come back for what goes on: not to stages without trained parameters at the beginning of a
    /// model. Known once a micro-batch has been there.
    std::optional<bool> is_answered;
    StageTimes times;
  };
  struct Underway {
    std::unique_ptr<Tape> tape;
    Variable input;   ///< without its value
    Variable output;  ///< of a stage before the last; without its value
    Layout output_layout = Layout::plain;
    std::vector<Tape::Root> roots;  ///< of the last stage
    std::unique_ptr<CommWork> sending;
  };
  struct StepUnderway {
    const StepParts& parts;
    std::vector<PartPlace> places;                          ///< of each part
    std::map<std::pair<int, int64_t>, Underway> under_way;  ///< by stage and micro-batch
    std::unique_ptr<CommWork> gradient;                     ///< the latest that was sent back
    const StageAction* next = nullptr;                      ///< that begins with what is sent here; null: none

    const BatchPart& part(const StageAction& action) const { return *parts[static_cast<size_t>(action.micro_batch)]; }
  };

  void forward(StepUnderway& step, const StageAction& action);
  void backward(StepUnderway& step, const StageAction& action);
  void backward_weights(StepUnderway& step, const StageAction& action);
  Stage& stage(int number);
  /// "forward 3", the micro-batch by number from 1; "forward 3, stage 0" where the device has several.
  std::string pass_name(const char* kind, const StageAction& action) const;
  /// What both ends of a boundary know of a part.
  static StageLink::Signature signature_of(const BatchPart& part, bool training);
  /// A device's first stage has its number.
  int device_number() const { return stages_.front().position.stage; }
  using ActionsOn = std::function<std::vector<StageAction>(int device)>;
  using PartOf = std::function<const BatchPart&(int64_t micro_batch)>;
  /// Lists what other devices will send here, in the order of their actions.
  void list_arrivals(const PipelineStep& step, const ActionsOn& actions_on, const PartOf& part_of, bool training);
  void end_arrivals();
  /// What a pass begins with. Blocks.
  StageLink::Crossing receive(Stage& at, const StageLink& link, int64_t micro_batch);
  StageInbox& inbox_of(const StageLink& link) { return inboxes_.at(link.peer()); }
  /// What the next action begins with may come while this one computes.
  void expect_next(const StepUnderway& step);
  void finish(Stage& at, std::unique_ptr<CommWork>& work);
  /// Has the device do a pass of a stage, which the seconds are of.
  StageLink::Crossing do_pass(Stage& at, StageLaps::Of kind, double& seconds,
                              const std::function<StageLink::Crossing()>& give);
  // A pass of what it has received; they return what is sent on, or back.
  StageLink::Crossing compute_forward(const StepUnderway& step, const StageAction& action, Underway& own,
                                      StageLink::Crossing received);
  StageLink::Crossing compute_backward(StepUnderway& step, const StageAction& action, Underway& own, Tensor gradient);
  /// Whether there is one for what a stage has made, once that was seen: of the last one's losses there always is.
  static bool gets_gradient(const Stage& at) { return !at.next || at.is_answered.value(); }
  void rehearse(const std::function<void(bool rehearses)>& make);

  Replica& replica_;
  PassRecorder recorder_;
  /// Of a GPU, which is timed in a few steps from one look at its times to the next: it takes launches.
  static constexpr int64_t kLappedSteps = 8;
  std::optional<StageLaps> laps_;
  int64_t lapped_steps_ = 0;  ///< since the last look
  bool is_lapped_ = false;    ///< the step that is made is one of them
  PlantedFault planted_;
  std::deque<Stage> stages_;           ///< in order
  std::map<int, StageInbox> inboxes_;  ///< by rank that sends
};

}  // namespace dptrain::parallel
