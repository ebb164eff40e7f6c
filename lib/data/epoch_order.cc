#include "data/epoch_order.h"

#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace dptrain {

std::vector<int64_t> epoch_order(int64_t samples, uint64_t seed, int64_t epoch, bool shuffle) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  DPTRAIN_CHECK(samples >= 0 && samples <= kMost && epoch >= 0 && epoch <= kMost, "{} samples in epoch {}", samples,
                epoch);
  std::vector<int64_t> order(static_cast<size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  if (!shuffle) return order;
  // Fisher and Yates (Knuth, TAOCP 2, 3.4.2 P), from the end; the word drawn for place i is word i.
  const KeyedRandom random(seed, RandomPurpose::shuffle, static_cast<uint32_t>(epoch), 0);
  for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(i, static_cast<uint32_t>(i + 1))]);
  return order;
}

}  // namespace dptrain
