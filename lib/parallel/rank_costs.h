#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "device/allocator.h"
#include "parallel/phase_clock.h"

namespace dptrain::parallel {

/// A rank's costs since they were last taken.
struct RankCosts {
  PhaseTimes times;
  int64_t samples = 0;
  int64_t graph_steps = 0;    ///< steps whose passes a GPU ran as CUDA graphs
  int64_t skipped_steps = 0;  ///< steps that fp16's loss scale skipped, as of the last time that scores were waited for
  int64_t peak_bytes = 0;
  MemoryCounts memory_at_peak;
  CommCounts communication;

  /// Adds the costs of the time that followed; the larger peak is kept.
  RankCosts& operator+=(const RankCosts& later);
};

}  // namespace dptrain::parallel
