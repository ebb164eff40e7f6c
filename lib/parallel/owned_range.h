#pragma once

#include <cstdint>
#include <vector>

namespace dptrain::parallel {

/// Elements [begin, end) of a model's flat buffers, which one rank updates for all.
struct OwnedRange {
  int64_t begin = 0;
  int64_t end = 0;
  int owner = 0;  ///< a rank

  int64_t elements() const { return end - begin; }
};

/// `elements` cut into a range for every rank, in the order of ranks, as equal as multiples of 16 can be: parts are
/// then updated in the same bits as the whole. A rank may get an empty one.
std::vector<OwnedRange> equal_ranges(int64_t elements, int ranks);

}  // namespace dptrain::parallel
