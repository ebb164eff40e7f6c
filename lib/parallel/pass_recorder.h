#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "parallel/recorded_section.h"
#include "parallel/replica.h"
#include "parallel/stage_link.h"

namespace dptrain::parallel {

/// The passes of a pipeline's stages on one device, between which it exchanges tensors with other devices. Where the
/// device can record, they are done as they are in the first step of its sizes, and replayed from the second one on.
///
/// A step is recorded as a whole before it is made, in a rehearsal: its passes are recorded in their order, and memory
/// is taken and given back as in a step, but nothing crosses. So what a replay receives and sends lies where it did
/// then; and a GPU that records, which takes memory, for which it may wait for all that it was given, has nothing under
/// way that waits for another. Used by the device's rank thread.
class PassRecorder {
 public:
  explicit PassRecorder(Replica& replica) : replica_(replica) {}
  /// Other ranks go as far as this one, and record at the same time: see StepRecorder.
  void agree_by(StepRecorder::Agree agree) { agree_ = std::move(agree); }

  enum class Mode {
    done,
    rehearsed,  ///< recorded, and not done
    replayed,
  };
  /// Makes a step on these parts: calls `give`, which is to `run` all of its passes, once or, to rehearse it, twice.
  void make_step(const StepParts& parts, const std::function<void(Mode)>& give);
  Mode mode() const { return mode_; }
  /// Whether the step that is made is one that the device records, or is about to.
  bool records() const { return step_ != nullptr; }

  /// Gives a pass to the device; `give` does, where it isn't replayed, and returns what the pass sends.
  StageLink::Crossing run(const std::function<StageLink::Crossing()>& give);

  /// Where what comes through a link for a micro-batch is to lie; undefined: anywhere.
  Tensor place_of(const StageLink& link, int64_t micro_batch) const;
  /// It has come: in a rehearsal, where `place_of` tells of.
  void note_received(const StageLink& link, int64_t micro_batch, const Tensor& value);

 private:
  // Tensors are borrowed, so that a rehearsal uses memory again as a step does; the pool of recorded work keeps it.
  struct Pass {
    RecordedSection work;
    StageLink::Crossing sent;
  };
  struct Step {
    bool is_recorded = false;
    MemoryCounts idle;  ///< bytes in use when it was recorded
    std::deque<Pass> passes;
    std::map<std::pair<const StageLink*, int64_t>, Tensor> received;
  };

  void give_in(Mode mode, const std::function<void(Mode)>& give);
  void rehearse(const std::function<void(Mode)>& give);
  StepRecorder::How agreed(StepRecorder::How own) { return agree_ ? agree_(own) : own; }
  /// Whether a step that is replayed has more passes.
  bool has_more() const { return next_ < step_->passes.size(); }

  Replica& replica_;
  StepRecorder::Agree agree_;
  std::map<StepRecorder::Signature, Step> steps_;  ///< those that were made
  Step* step_ = nullptr;                           ///< that is made; null: one that isn't to be recorded
  Mode mode_ = Mode::done;
  size_t next_ = 0;  ///< pass of it
};

}  // namespace dptrain::parallel
