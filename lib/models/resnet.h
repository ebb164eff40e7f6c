#pragma once

#include "models/model_registry.h"

namespace dptrain::models {

/// The ResNet-18 of Dive into Deep Learning 13.6, (N, C, H, W) -> (N, classes) (He et al., 2016). It has a 3x3 stem of
/// stride 1 without a max pool, four stages of two residual blocks with 64, 128, 256 and 512 channels, global average
/// pooling and one linear layer. The last three stages halve the image. It has 11,175,818 parameters for grey images in
/// ten classes. Names are torchvision's, except the 1x1 convolution of a shortcut, `downsample`, which has a bias and
/// no batch norm. Convolution and linear weights begin as N(0, 0.01^2).
std::unique_ptr<nn::Model> build_resnet18(const nn::LayerOptions& options, const ModelInput& input);

}  // namespace dptrain::models
