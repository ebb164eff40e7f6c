#pragma once

#include "models/model_registry.h"

namespace dptrain::models {

struct PyramidNetOptions {
  int64_t alpha = 270;  ///< channels that 3 * depth blocks add to the stem's 16
  int64_t depth = 18;   ///< each block is alpha / (3 * depth) wider than the one before
  int64_t blocks = 17;  ///< in each of the three stages
};

/// The channels of the stem and of every block, in order: 16, then a fixed share of alpha more for each block. The sum
/// is kept in double precision and rounded half to even, as Python rounds.
std::vector<int64_t> pyramidnet_widths(const PyramidNetOptions& options);

/// Reads {alpha, depth, blocks}.
PyramidNetOptions read_pyramidnet(ConfigReader& options);

/// PyramidNet, (N, C, H, W) -> (N, classes) (Han, Kim and Kim, 2017, Deep Pyramidal Residual Networks). It has a 3x3
/// stem of 16 channels, three stages of residual blocks that widen from block to block, an average pool and one linear
/// layer. The last two stages halve the image. A block is BN, convolution, BN, ReLU, convolution, BN; its shortcut is
/// averaged over 2x2 if the block halves the image, and padded with channels of zeros. Convolutions have no bias and
/// begin as N(0, 2 / fan_out). By default it has 24,253,410 parameters for color images in ten classes. The pool
/// averages one square as wide as the image after the last stage. Throws 78 for images that leave no such square, or
/// more than one.
std::unique_ptr<nn::Model> build_pyramidnet(const PyramidNetOptions& pyramid, const nn::LayerOptions& options,
                                            const ModelInput& input);

}  // namespace dptrain::models
