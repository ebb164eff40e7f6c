#pragma once

#include <span>
#include <vector>

#include "train/trace_difference.h"

namespace dptrain::train {

/// How far a layer of a right strategy may be from that of `single`, as its difference relative to it.
struct NoiseBound {
  double bound = 0;
  /// Rounding alone changes the layer so much that a fault in it can't be told from that, not even one that leaves
  /// nothing of it.
  bool all_noise = false;
};

/// The bound of a layer that one rounding of the weights changes by `of_a_rounding` under `single`, and many roundings
/// by `of_many`: ten times the former, or the latter where it is more, and at least 80 roundings of f32. Never more
/// than 0.5, unless the layer is all noise: where ten times the former is more than that.
NoiseBound noise_bound(double of_a_rounding, double of_many);

/// An activation on the edge of a ReLU may be passed on or not in any layer, and changes the gradients of that one and
/// all before it, whether the noise that was looked at had it there or not. So a gradient's bound becomes at least the
/// median of those of the step's gradients that aren't all noise, and that of its weight rises as much. `layers`: whose
/// bounds they are.
void allow_for_flips(std::span<const LayerDifference> layers, std::vector<NoiseBound>& bounds);

}  // namespace dptrain::train
