#pragma once

#include "parallel/rank_team.h"
#include "parallel/replica.h"

namespace dptrain::parallel {

/// The steps that a strategy has given to its ranks and that they aren't done with: at most so many, so that a rank
/// that is done with one begins the next at once while the host counts the last one's results and fetches another
/// batch. The last member of a strategy, which nothing is under way in when its other members end.
class StepsUnderWay {
 public:
  StepsUnderWay(RankTeam& team, int most);
  ~StepsUnderWay() { team_.finish(); }
  StepsUnderWay(const StepsUnderWay&) = delete;
  StepsUnderWay& operator=(const StepsUnderWay&) = delete;

  /// Gives the ranks a step; `work` keeps alive what it works on. Blocks until fewer than `most` are under way: with
  /// one, until it is done. Throws what ended a step, this one or one before.
  void give(const StepNumbers& numbers, RankTeam::Work work);

 private:
  RankTeam& team_;
  int most_;
};

}  // namespace dptrain::parallel
