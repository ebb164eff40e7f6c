#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "parallel/rank_team.h"
#include "parallel/recording_agreement.h"
#include "parallel/replica.h"

namespace dptrain::parallel {

/// Of a batch and its parts on all ranks of this process, which each of them sees alike; and whether `device` shows
/// what it does, which all do in the same steps.
StepRecorder::Signature sizes_of_all(const Batch& batch, const Device& device);
/// What of that the ranks of all processes see alike: processes don't know what labels others have.
StepRecorder::Signature sizes_known_to_all(const RankTeam& team, const Batch& batch, const Device& device);

/// Steps of ranks whose exchanges are recorded with what their devices do, by all of them at once.
class RecordedExchanges {
 public:
  /// `is_of_text`: ranks don't know each other's sizes.
  RecordedExchanges(RankTeam& team, bool is_of_text);

  /// A rank takes part: it records what all others do. Once for each, before the first step.
  void join(int rank, Replica& replica);
  /// A step of a rank, of what `give` gives to the device: done, recorded or replayed as all ranks can, or done as it
  /// is where they don't record. What is new to them is exchanged apart, see Communicator::begin_recordable.
  void run(int rank, Replica& replica, const StepParts& parts, const Batch& batch, const std::function<void()>& give);

 private:
  RankTeam& team_;
  bool is_of_text_;
  std::vector<CommCounts> counts_;                               ///< by rank: of one replay
  std::vector<std::unique_ptr<RecordingAgreement>> agreements_;  ///< by rank; null for who records alone
  std::vector<std::set<StepRecorder::Signature>> done_;          ///< by rank: sizes of steps that weren't recorded
};

}  // namespace dptrain::parallel
