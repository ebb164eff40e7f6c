#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "parallel/rank_team.h"
#include "parallel/recording_agreement.h"
#include "parallel/replica.h"

namespace dptrain::parallel {

/// The sizes of a batch and of its parts on all ranks of this process, and whether the device is shown on a timeline.
/// All ranks of the process get the same signature.
StepRecorder::Signature sizes_of_all(const Batch& batch, const Device& device);
/// The part of `sizes_of_all` that is known alike in all processes. One process doesn't know how many labels another
/// has.
StepRecorder::Signature sizes_known_to_all(const RankTeam& team, const Batch& batch, const Device& device);

/// Runs steps whose exchanges are recorded together with the device work, by all ranks at once.
class RecordedExchanges {
 public:
  /// `is_of_text`: ranks don't know each other's sizes.
  RecordedExchanges(RankTeam& team, bool is_of_text);

  /// The communicators that a rank's steps use; the team's by default. Call it before the first step.
  void exchange_over(int rank, std::vector<Communicator*> communicators) {
    communicators_[static_cast<size_t>(rank)] = std::move(communicators);
  }
  /// Makes a rank record together with all others. Call it once per rank, before the first step.
  void join(int rank, Replica& replica);
  /// Runs a rank's step, whose device work `give` gives. The work is run, recorded or replayed, as far as all ranks
  /// can. If ranks don't record, it is just run. Exchanges of new sizes are made apart from other work; see
  /// Communicator::begin_recordable.
  void run(int rank, Replica& replica, const StepParts& parts, const Batch& batch, const std::function<void()>& give);

 private:
  RankTeam& team_;
  bool is_of_text_;
  std::vector<std::vector<Communicator*>> communicators_;  ///< by rank
  /// By rank: counts of one replay over each of its communicators, by recording.
  std::vector<std::map<StepRecorder::Signature, std::vector<CommCounts>>> counts_;
  std::vector<std::unique_ptr<RecordingAgreement>> agreements_;  ///< by rank; null for a rank that records alone
  /// By rank: sizes of the steps so far, if they aren't recorded.
  std::vector<std::set<StepRecorder::Signature>> done_;
};

}  // namespace dptrain::parallel
