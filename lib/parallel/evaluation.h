#pragma once

#include <cstdint>
#include <functional>

#include "data/dataset.h"
#include "device/device_id.h"

namespace dptrain::parallel {

/// Callbacks that an evaluation calls between its blocks.
struct EvaluationWatch {
  std::function<bool()> stopped;                   ///< whether the evaluation is to stop; called on any rank's thread
  std::function<void(int64_t samples)> done = {};  ///< about this many samples are done; called on one thread at a time
};

/// Number of samples that are evaluated in one call. It is about the size of a usual training step. Evaluation then
/// takes no more memory than training, and a signal waits for at most one forward pass. It is smaller for text, where
/// every token is predicted, and larger for GPUs, which need more samples to be busy.
int64_t evaluation_block(const Dataset& dataset, DeviceKind kind);

}  // namespace dptrain::parallel
