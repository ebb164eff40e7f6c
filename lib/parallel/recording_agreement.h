#pragma once

#include <optional>
#include <set>

#include "comm/communicator.h"
#include "parallel/step_recorder.h"

namespace dptrain::parallel {

/// How far ranks go that record their steps together: as far as the least of them, as each has sizes of its own (texts
/// with more or fewer predicted tokens, shares of a batch) and memory of its own. One is a rank's; all ranks begin the
/// same steps and ask equally often.
class RecordingAgreement {
 public:
  using How = StepRecorder::How;

  explicit RecordingAgreement(Communicator& over_host) : over_host_(over_host) {}

  /// A step that is alike, on every rank, in each step of these sizes: what all ranks would replay of it they replay in
  /// all that follow, and don't meet for it. Nothing where that can't be told.
  void begin_step(std::optional<StepRecorder::Signature> sizes);
  /// How far all go where this rank would go as far as `own`. Blocks until all have asked, unless that is known.
  How of_all(How own);

 private:
  Communicator& over_host_;
  std::optional<StepRecorder::Signature> sizes_;
  std::set<StepRecorder::Signature> seen_, replayed_;
};

}  // namespace dptrain::parallel
