#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Sizes of F(4x4, 3x3) in one direction (winograd_transforms.h): a tile's inputs and outputs, and a window's weights.
constexpr int kWinogradInputs = 6, kWinogradOutputs = 4, kWinogradWeights = 3;
/// Products of a tile.
constexpr int64_t kWinogradProducts = kWinogradInputs * kWinogradInputs;

}  // namespace dptrain::ops
