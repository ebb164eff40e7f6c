#pragma once

#include "models/model_registry.h"

namespace dptrain::models {

struct PyramidNetOptions {
  int64_t alpha = 270;  ///< channels that 3 * depth blocks add to the stem's 16
  int64_t depth = 18;   ///< each block is alpha / (3 * depth) wider than the one before
  int64_t blocks = 17;  ///< in each of the three stages
};

/// The channels of the stem and of every block, one after the other: 16 and a share of alpha more each, added up in
/// double precision and rounded half to even, as Python rounds.
std::vector<int64_t> pyramidnet_widths(const PyramidNetOptions& options);

/// Reads {alpha, depth, blocks}.
PyramidNetOptions read_pyramidnet(ConfigReader& options);

/// (N, C, H, W) -> (N, classes): PyramidNet (Han, Kim and Kim, 2017, Deep Pyramidal Residual Networks): a 3x3 stem of
/// 16 channels, three stages of residual blocks that widen from block to block, the last two stages halving the image,
/// the average of what is left and one linear layer. A block is BN, convolution, BN, ReLU, convolution, BN; its
/// shortcut is averaged over 2x2 where the image is halved, and padded with channels of zeros. 24,253,410 parameters by
/// default, for color images in ten classes. Convolutions have no bias and begin as N(0, 2 / fan_out). Throws 78 for
/// images of which no square as wide as they are is left to average, or more than one.
std::unique_ptr<nn::Model> build_pyramidnet(const PyramidNetOptions& pyramid, const nn::LayerOptions& options,
                                            const ModelInput& input);

}  // namespace dptrain::models
