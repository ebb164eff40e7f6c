#pragma once

#include "data/dataset.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Throws 78 if a batch norm of the model would get only one value of each channel in training: a single sample that is
/// a row of features or a 1x1 image. Its output would be its bias for any input, and the layers before it would learn
/// nothing. Only whole batches are checked, because a short batch at an epoch's end may have one sample.
void require_samples_to_normalize(const Experiment& experiment, const Dataset& data);

}  // namespace dptrain::train
