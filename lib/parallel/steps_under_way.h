#pragma once

#include "parallel/rank_team.h"
#include "parallel/replica.h"

namespace dptrain::parallel {

/// The steps that a strategy has given to its ranks and that aren't finished. Up to `most` steps are under way at once.
/// A rank can then begin its next step at once, while the host counts the results of the last step and fetches another
/// batch.
///
/// It must be a strategy's last member: its destructor then ends all steps before other members are destroyed.
class StepsUnderWay {
 public:
  StepsUnderWay(RankTeam& team, int most);
  ~StepsUnderWay() { team_.finish(); }
  StepsUnderWay(const StepsUnderWay&) = delete;
  StepsUnderWay& operator=(const StepsUnderWay&) = delete;

  /// Gives the ranks a step; `work` keeps everything alive that it uses. Blocks until fewer than `most` steps are under
  /// way; if `most` is 1, until this step is done. Throws the error that ended this step or an earlier one.
  void give(const StepNumbers& numbers, RankTeam::Work work);

 private:
  RankTeam& team_;
  int most_;
};

}  // namespace dptrain::parallel
