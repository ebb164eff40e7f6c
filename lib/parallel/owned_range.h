#pragma once

#include <cstdint>
#include <vector>

namespace dptrain::parallel {

/// Elements [begin, end) of a model's flat buffers that one rank updates for all ranks.
struct OwnedRange {
  int64_t begin = 0;
  int64_t end = 0;
  int owner = 0;  ///< rank that owns the range

  int64_t elements() const { return end - begin; }
};

/// Cuts `elements` into one range per rank, in the order of ranks. The ranges are as equal as multiples of 16 allow, so
/// that updates of parts are bit-identical to an update of the whole. A range may be empty.
std::vector<OwnedRange> equal_ranges(int64_t elements, int ranks);

}  // namespace dptrain::parallel
