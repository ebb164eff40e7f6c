#pragma once

#include <string>
#include <vector>

#include "tensor/precision.h"
#include "train/event_record.h"
#include "train/metrics.h"

namespace dptrain::train {

/// The numbers in a line of steps.jsonl, under the tags `steps/...`.
std::vector<TaggedScalar> step_scalars(const std::string& line);

/// The numbers of a line of metrics.jsonl that make curves; docs/runs.md lists the tags.
std::vector<TaggedScalar> epoch_scalars(const EpochMetrics& metrics, Precision precision);

}  // namespace dptrain::train
