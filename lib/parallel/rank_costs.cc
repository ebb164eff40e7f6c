#include "parallel/rank_costs.h"

#include <cstddef>

namespace dptrain::parallel {

RankCosts& RankCosts::operator+=(const RankCosts& later) {
  for (size_t i = 0; i < times.seconds.size(); ++i) times.seconds[i] += later.times.seconds[i];
  samples += later.samples;
  graph_steps += later.graph_steps;
  skipped_steps += later.skipped_steps;
  if (later.peak_bytes > peak_bytes) {
    peak_bytes = later.peak_bytes;
    memory_at_peak = later.memory_at_peak;
  }
  communication += later.communication;
  return *this;
}

}  // namespace dptrain::parallel
