#pragma once

#include <span>
#include <vector>

#include "train/trace_difference.h"

namespace dptrain::train {

/// The largest relative difference from `single` that a layer of a correct strategy may have.
struct NoiseBound {
  double bound = 0;
  /// Rounding alone changes the layer so much that no fault in it can be told from noise, not even one that leaves
  /// nothing of it.
  bool all_noise = false;
};

/// The bound of a layer under `single`. One rounding of the weights changes the layer by `of_a_rounding`, and many
/// roundings change it by `of_many`. The bound is the largest of ten times `of_a_rounding`, `of_many` and 80 roundings
/// of f32, but at most 0.5. If ten times `of_a_rounding` is more than 0.5, the layer is all noise and the bound isn't
/// limited.
NoiseBound noise_bound(double of_a_rounding, double of_many);

/// Raises bounds for activations at the edge of a ReLU. Whether such an activation passes changes the gradients of its
/// layer and of all layers before it, and the measured noise may not contain such a case. So a gradient's bound becomes
/// at least the median bound of the step's gradients that aren't all noise, and the bound of its weight rises by the
/// same factor. `layers`: the layers of `bounds`.
void allow_for_flips(std::span<const LayerDifference> layers, std::vector<NoiseBound>& bounds);

}  // namespace dptrain::train
