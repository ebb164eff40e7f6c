#pragma once

#include <string>
#include <vector>

#include "tensor/precision.h"
#include "train/event_record.h"
#include "train/metrics.h"

namespace dptrain::train {

/// What a line of steps.jsonl says of its step, under the tags `steps/...`.
std::vector<TaggedScalar> step_scalars(const std::string& line);

/// What a line of metrics.jsonl says that makes a curve; docs/runs.md has the tags.
std::vector<TaggedScalar> epoch_scalars(const EpochMetrics& metrics, Precision precision);

}  // namespace dptrain::train
