#pragma once

#include <optional>
#include <set>

#include "comm/communicator.h"
#include "parallel/step_recorder.h"

namespace dptrain::parallel {

/// Lets ranks record their steps together. All go only as far as the least advanced rank, because each rank has its own
/// sizes (texts with more or fewer predicted tokens, shares of a batch) and its own memory. There is one object per
/// rank; all ranks must begin the same steps and ask equally often.
class RecordingAgreement {
 public:
  using How = StepRecorder::How;

  explicit RecordingAgreement(Communicator& over_host) : over_host_(over_host) {}

  /// Begins a step. `sizes` is set if steps of equal sizes are alike on every rank. Once all ranks have replayed a part
  /// of such a step, they replay it in later steps of these sizes without asking each other, until a step of new sizes
  /// comes. Pass nothing if this can't be known.
  void begin_step(std::optional<StepRecorder::Signature> sizes);
  /// How far all ranks go, if this rank would go as far as `own`. Blocks until all ranks have asked, unless the answer
  /// is already known.
  How of_all(How own);

 private:
  Communicator& over_host_;
  std::optional<StepRecorder::Signature> sizes_;
  std::set<StepRecorder::Signature> seen_, replayed_;
};

}  // namespace dptrain::parallel
