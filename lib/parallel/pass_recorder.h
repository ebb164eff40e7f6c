#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "parallel/recorded_section.h"
#include "parallel/replica.h"
#include "parallel/stage_link.h"

namespace dptrain::parallel {

/// Records and replays the passes of a step on one device; between passes the device exchanges tensors with other
/// devices. If the device can record, the first step of given sizes runs operator by operator, and later
/// steps of these sizes are replayed.
///
/// A step is recorded as a whole in a rehearsal, before the step itself. The rehearsal records all passes in order and
/// takes and frees memory as a step does, but sends and receives nothing. This has two reasons:
/// - A replay then finds what it receives and sends at the recorded addresses.
/// - Recording takes memory, for which a GPU may wait for all its work. In a rehearsal none of that work waits for
///   another device.
///
/// Used by the device's rank thread.
class PassRecorder {
 public:
  explicit PassRecorder(Replica& replica) : replica_(replica) {}
  /// Makes ranks record at the same time, each going only as far as all of them can; see StepRecorder.
  void agree_by(StepRecorder::Agree agree) { agree_ = std::move(agree); }

  enum class Mode {
    done,
    rehearsed,  ///< recorded, but not run
    replayed,
  };
  /// Makes a step on these parts. Calls `give`, which must `run` all of its passes: once, or twice if the step is
  /// rehearsed first.
  void make_step(const StepParts& parts, const std::function<void(Mode)>& give);
  Mode mode() const { return mode_; }
  /// Whether the current step's sizes are ones that the device records, now or in a later step.
  bool records() const { return step_ != nullptr; }

  /// Runs one pass. Calls `give` unless the pass is replayed. `give` returns the tensors that are sent after the pass,
  /// and those that are received into before the next one; these are the tensors that `run` returns.
  std::vector<Tensor> run(const std::function<std::vector<Tensor>()>& give);
  /// Runs a pass that has no such tensors.
  void run_without_results(const std::function<void()>& give);

  /// The address for what a link receives for a micro-batch; undefined if any address will do.
  Tensor place_of(const StageLink& link, int64_t micro_batch) const;
  /// Tells that a value was received. What a rehearsal receives gives the addresses for later replays.
  void note_received(const StageLink& link, int64_t micro_batch, const Tensor& value);

 private:
  // Tensors are borrowed, so that a rehearsal reuses memory as a step does. The pool for recorded work keeps that
  // memory.
  struct Pass {
    RecordedSection work;
    std::vector<Tensor> results;
  };
  struct Step {
    bool is_recorded = false;
    MemoryCounts idle;  ///< bytes in use when the step was recorded
    std::deque<Pass> passes;
    std::map<std::pair<const StageLink*, int64_t>, Tensor> received;
  };

  void give_in(Mode mode, const std::function<void(Mode)>& give);
  void rehearse(const std::function<void(Mode)>& give);
  StepRecorder::How agreed(StepRecorder::How own) { return agree_ ? agree_(own) : own; }
  /// Whether the step that is being replayed has more passes.
  bool has_more() const { return next_ < step_->passes.size(); }

  Replica& replica_;
  StepRecorder::Agree agree_;
  std::map<StepRecorder::Signature, Step> steps_;  ///< steps so far, by their sizes
  Step* step_ = nullptr;                           ///< the current step; null if it isn't to be recorded
  Mode mode_ = Mode::done;
  size_t next_ = 0;  ///< the next pass of the current step
};

}  // namespace dptrain::parallel
