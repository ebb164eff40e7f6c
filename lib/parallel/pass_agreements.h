#pragma once

#include <memory>
#include <vector>

#include "parallel/pass_recorder.h"
#include "parallel/rank_team.h"
#include "parallel/recording_agreement.h"

namespace dptrain::parallel {

/// Makes ranks record the passes of their steps at the same time, each going only as far as all of them can. No rank
/// then gives its GPU unrecorded work while another one records.
class PassAgreements {
 public:
  /// `is_of_text`: ranks don't know each other's sizes.
  PassAgreements(RankTeam& team, bool is_of_text);

  /// Makes a rank record together with all others of the world. Call it before the first step, for all ranks or none.
  void join(int rank, PassRecorder& passes);
  /// Begins a rank's step, before its PassRecorder makes it.
  void begin_step(int rank, const Batch& batch);

 private:
  RankTeam& team_;
  bool is_of_text_;
  std::vector<std::unique_ptr<RecordingAgreement>> agreements_;  ///< by rank; null: not joined
};

}  // namespace dptrain::parallel
