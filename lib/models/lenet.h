#pragma once

#include "models/model_registry.h"

namespace dptrain::models {

/// (N, C, H, W) -> (N, classes), for images of at least 16 x 16: 5x5 convolutions of 20 and 50 channels, each with ReLU
/// and a 2x2 max-pool; 128 units; 129,388 parameters for 28 x 28 grey images in ten classes (LeCun et al., 1998, in the
/// sizes of the Gluon multi-GPU tutorial). Throws 78 where the images are smaller.
std::unique_ptr<nn::Model> build_lenet(const nn::LayerOptions& options, const ModelInput& input);

}  // namespace dptrain::models
