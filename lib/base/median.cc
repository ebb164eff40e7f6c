#include "base/median.h"

#include <algorithm>

#include "base/check.h"

namespace dptrain {

double median(std::vector<double> values) {
  DPTRAIN_CHECK(!values.empty(), "nothing to take the median of");
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace dptrain
