#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "parallel/pipeline_schedule.h"
#include "parallel/planted_fault.h"
#include "parallel/replica.h"
#include "parallel/stage_link.h"

namespace dptrain::parallel {

/// What a stage has spent in its steps, as its rank's thread has seen it.
struct StageTimes {
  double forward_s = 0;
  double backward_s = 0;          ///< without what is below
  double backward_weights_s = 0;  ///< in passes of their own
  double waiting_s = 0;           ///< for activations and gradients
  int64_t micro_batches = 0;

  StageTimes& operator+=(const StageTimes& other);
};

/// A stage of a pipeline: a part of a model that gets what the part before has made of a micro-batch, and gives what it
/// makes of that to the part behind; gradients go the way back. Each micro-batch has a tape of its own on each stage,
/// which begins with what was received and ends with what is sent. Used by the device's rank thread.
class PipelineStage {
 public:
  /// The stages before and behind it; nothing at an end of the pipeline.
  struct Neighbors {
    std::optional<StageLink::Peer> previous = {};
    std::optional<StageLink::Peer> next = {};
  };
  PipelineStage(Replica& part, const StageLink::Ends& ends, const Neighbors& neighbors,
                PlantedFault planted = PlantedFault::none);

  /// Gradients of a step's micro-batches, which the replica's step was begun with, added up by number. One that no
  /// action names is left out, here and on the neighbors.
  void add_gradients(std::span<const StageAction> actions, const StepParts& parts);
  /// Test samples from `begin` to before `end`.
  struct Block {
    int64_t begin = 0;
    int64_t end = 0;
  };
  /// Passes blocks of test samples on, with these rows of text predicted; the last stage returns what they have come
  /// out as, the others nothing.
  std::vector<StepResults> evaluate(const Dataset& dataset, std::span<const Block> blocks, PredictedRows rows);

  /// Since the last call.
  StageTimes take_times() { return std::exchange(times_, {}); }

 private:
  struct Underway {
    std::unique_ptr<Tape> tape;
    Variable input;   ///< without its value
    Variable output;  ///< of a stage before the last; without its value
    Layout output_layout = Layout::plain;
    std::vector<Tape::Root> roots;  ///< of the last stage
    std::unique_ptr<CommWork> sending;
  };
  struct Step {
    const StepParts& parts;
    std::vector<Replica::Place> places;     ///< of each part
    std::map<int64_t, Underway> under_way;  ///< by micro-batch
    std::unique_ptr<CommWork> gradient;     ///< the latest that was sent back
    const StageAction* next = nullptr;      ///< that begins with what a neighbor sends; null: none
  };

  void forward(Step& step, int64_t micro_batch);
  void backward(Step& step, const StageAction& action);
  void backward_weights(Step& step, int64_t micro_batch);
  /// What both ends of a boundary know of a part.
  static StageLink::Signature signature_of(const BatchPart& part, bool training);
  StageLink::Crossing receive(StageLink& link, const StageLink::Signature& signature);
  /// What the next action begins with may come while this one computes.
  void expect_next(const Step& step);
  void finish(std::unique_ptr<CommWork>& work);

  Replica& part_;
  PlantedFault planted_;
  std::optional<StageLink> previous_;
  std::optional<StageLink> next_;
  StageTimes times_;
};

}  // namespace dptrain::parallel
