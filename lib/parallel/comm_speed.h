#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/comm_call.h"
#include "parallel/rank_team.h"

namespace dptrain::parallel {

/// How long a collective took, and copying as many bytes beside it.
struct CommSpeed {
  CommKind kind = CommKind::all_reduce;
  int64_t bytes = 0;   ///< of each rank's buffer
  double seconds = 0;  ///< until the last rank is done; median
  /// Of a memcpy, by all ranks at once, of the bytes that the collective sends; 0 where one is a GPU.
  double copy_s = 0;
  int64_t sent_bytes = 0;  ///< over all ranks

  /// Of the payload, summed over ranks.
  double sent_bytes_per_s() const { return static_cast<double>(sent_bytes) / seconds; }
  double copies() const { return copy_s > 0 ? seconds / copy_s : 0; }
};

struct CommSpeedOptions {
  std::vector<int64_t> bytes = {};
  int repeats = 20;
  /// Asked between two calls, on a thread of the world's first rank: whether to measure no more. May be empty.
  std::function<bool()> stopped = {};
};

/// Measures all_reduce, reduce_scatter, all_gather, reduce and broadcast of f32 over the ranks of a team's world, each
/// in turns with copies of as many bytes by the same threads. The buffers of successive calls are others, together
/// twice the last level cache of this machine or more, so that all of them come from memory, unless that takes
/// thousands of them. Where it was stopped, what was measured until then. All processes of the world call it alike, and
/// have the same times.
std::vector<CommSpeed> measure_comm(RankTeam& team, const CommSpeedOptions& options);

}  // namespace dptrain::parallel
