#include "parallel/steps_under_way.h"

#include <utility>

#include "base/check.h"

namespace dptrain::parallel {

StepsUnderWay::StepsUnderWay(RankTeam& team, int most) : team_(team), most_(most) {
  DPTRAIN_CHECK(most > 0, "{} steps under way", most);
}

void StepsUnderWay::give(const StepNumbers& numbers, RankTeam::Work work) {
  const int64_t number = team_.give_step(numbers.step, std::move(work));
  team_.wait(number - most_ + 1);
}

}  // namespace dptrain::parallel
