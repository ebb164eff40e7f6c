#pragma once

#include "data/dataset.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Throws 78 where a batch norm of the model would get one value of each channel in training: of one sample, which is
/// a row of features there or an image of 1x1. It would put out its bias, whatever came in, and teach nothing before
/// it. Asked of whole batches: of a short one at an epoch's end one sample may be left.
void require_samples_to_normalize(const Experiment& experiment, const Dataset& data);

}  // namespace dptrain::train
