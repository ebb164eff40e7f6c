#include "parallel/staleness.h"

#include <algorithm>

namespace dptrain::parallel {

void Staleness::count(int64_t staleness) {
  const auto at = static_cast<size_t>(staleness);
  pushes.resize(std::max(pushes.size(), at + 1));
  ++pushes[at];
}

Staleness& Staleness::operator+=(const Staleness& other) {
  pushes.resize(std::max(pushes.size(), other.pushes.size()));
  for (size_t i = 0; i < other.pushes.size(); ++i) pushes[i] += other.pushes[i];
  return *this;
}

double Staleness::mean() const {
  int64_t sum = 0, all = 0;
  for (size_t i = 0; i < pushes.size(); ++i) {
    sum += static_cast<int64_t>(i) * pushes[i];
    all += pushes[i];
  }
  return all > 0 ? static_cast<double>(sum) / static_cast<double>(all) : 0;
}

}  // namespace dptrain::parallel
