#include "parallel/owned_range.h"

#include <algorithm>

namespace dptrain::parallel {

std::vector<OwnedRange> equal_ranges(int64_t elements, int ranks) {
  constexpr int64_t kAlignElements = 16;
  const int64_t blocks = (elements + kAlignElements - 1) / kAlignElements;
  const auto cut = [&](int rank) { return std::min(elements, blocks * rank / ranks * kAlignElements); };
  std::vector<OwnedRange> ranges;
  for (int rank = 0; rank < ranks; ++rank) ranges.push_back({.begin = cut(rank), .end = cut(rank + 1), .owner = rank});
  return ranges;
}

}  // namespace dptrain::parallel
