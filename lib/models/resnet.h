#pragma once

#include "models/model_registry.h"

namespace dptrain::models {

/// (N, C, H, W) -> (N, classes): the ResNet-18 of Dive into Deep Learning 13.6 (He et al., 2016): a 3x3 stem of stride
/// 1 and no max-pool, four stages of two residual blocks with 64, 128, 256 and 512 channels, the last three halving the
/// image, global average pooling and one linear layer. 11,175,818 parameters for grey images in ten classes. Names are
/// torchvision's but for the 1x1 convolution of a shortcut, `downsample`, which has a bias and no batch norm.
/// Convolution and linear weights begin as N(0, 0.01^2).
std::unique_ptr<nn::Model> build_resnet18(const nn::LayerOptions& options, const ModelInput& input);

}  // namespace dptrain::models
