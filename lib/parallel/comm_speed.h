#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/comm_call.h"
#include "parallel/rank_team.h"

namespace dptrain::parallel {

/// The time of one collective, and of copying as many bytes as it sends.
struct CommSpeed {
  CommKind kind = CommKind::all_reduce;
  int64_t bytes = 0;   ///< bytes of each rank's buffer
  double seconds = 0;  ///< median time until the last rank is done
  /// Time of a memcpy of the bytes that the collective sends, by all ranks at once; 0 if any rank's device is a GPU.
  double copy_s = 0;
  int64_t sent_bytes = 0;  ///< payload bytes, summed over ranks

  /// Payload bytes per second, summed over ranks.
  double sent_bytes_per_s() const { return static_cast<double>(sent_bytes) / seconds; }
  double copies() const { return copy_s > 0 ? seconds / copy_s : 0; }
};

struct CommSpeedOptions {
  std::vector<int64_t> bytes = {};
  int repeats = 20;
  /// Called between two measured calls, on a thread of the world's first rank; true ends the measurement. May be empty.
  std::function<bool()> stopped = {};
};

/// Measures all_reduce, reduce_scatter, all_gather, reduce and broadcast of f32 over the ranks of a team's world. Calls
/// of each collective alternate with copies of as many bytes by the same threads.
///
/// Successive calls use different buffers, so that the data comes from memory. Together the buffers take at least twice
/// this machine's last level cache, unless that needs thousands of them.
///
/// If `stopped` returns true, the result holds what was measured until then. All processes of the world make the same
/// call and get the same times.
std::vector<CommSpeed> measure_comm(RankTeam& team, const CommSpeedOptions& options);

}  // namespace dptrain::parallel
