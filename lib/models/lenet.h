#pragma once

#include "models/model_registry.h"

namespace dptrain::models {

/// LeNet, (N, C, H, W) -> (N, classes), for images of at least 16 x 16 (LeCun et al., 1998, in the sizes of the Gluon
/// multi-GPU tutorial). It has 5x5 convolutions of 20 and 50 channels, each with a ReLU and a 2x2 max pool, then 128
/// units. For 28 x 28 grey images in ten classes it has 129,388 parameters. Throws 78 if the images are smaller.
std::unique_ptr<nn::Model> build_lenet(const nn::LayerOptions& options, const ModelInput& input);

}  // namespace dptrain::models
