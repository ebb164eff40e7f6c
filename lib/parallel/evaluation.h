#pragma once

#include <cstdint>
#include <functional>

#include "data/dataset.h"
#include "device/device_id.h"

namespace dptrain::parallel {

/// Callbacks that an evaluation calls between its blocks.
struct EvaluationWatch {
  /// Whether the evaluation is to stop. Called on any rank's thread; for pipelines on the caller's.
  std::function<bool()> stopped;
  /// About this many samples are done. Called on one thread at a time.
  std::function<void(int64_t samples)> done = {};
};

/// Number of samples that are evaluated in one call. It is about the size of a usual training step. Evaluation then
/// takes no more memory than training, and a signal waits for at most one forward pass (in a pipeline for a few
/// blocks per device). It is smaller for text, where
/// every token is predicted, and larger for GPUs, which need more samples to be busy.
int64_t evaluation_block(const Dataset& dataset, DeviceKind kind);

}  // namespace dptrain::parallel
