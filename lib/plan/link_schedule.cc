#include "plan/link_schedule.h"

#include <algorithm>

namespace dptrain::plan {
namespace {

bool share(const std::vector<int>& a, const std::vector<int>& b) {
  return a.empty() || b.empty() || std::ranges::find_first_of(a, b) != a.end();
}

}  // namespace

void LinkSchedule::take(size_t operation, const Use& use) {
  std::erase_if(under_way_, [&](const UnderWay& other) { return *ends_[other.operation] <= use.ready; });
  double begin = use.ready;
  for (const UnderWay& other : under_way_) {
    if (!share(use.links, other.links)) continue;
    double& end = *ends_[other.operation];
    if (other.priority >= use.priority) {
      begin = std::max(begin, end);
    } else {
      begin = std::max(begin, std::min(end, use.ready + use.on_its_way_s));
      end += use.seconds;
    }
  }
  ends_[operation] = begin + use.seconds;
  under_way_.push_back({.operation = operation, .links = use.links, .priority = use.priority});
}

}  // namespace dptrain::plan
