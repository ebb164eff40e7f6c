#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/model.h"

namespace dptrain::parallel {

/// What the bits of a device's weights come to, to be held against those of other devices.
struct WeightDigests {
  struct Tensor {
    std::string name;
    uint64_t digest = 0;
  };
  /// Its kind: others may round the same update otherwise.
  DeviceKind kind = DeviceKind::cpu;
  std::vector<Tensor> tensors = {};  ///< empty of a device that keeps no weights from step to step
};

/// Of all parameters, those that are tied to another stage's as well, as they lie on the model's device. Blocks.
WeightDigests digests_of(const nn::Model& model);

/// A weight that is to have the same bits on two ranks of the world, and hasn't.
struct WeightDifference {
  std::string tensor;
  int rank = 0;   ///< that isn't like most; of two the second
  int other = 0;  ///< that is like most
};

/// The first weight that some rank has otherwise than others, of ranks of the world in order; each is compared between
/// devices of one kind. Nothing where all agree.
std::optional<WeightDifference> find_weight_difference(const std::vector<WeightDigests>& by_rank);

}  // namespace dptrain::parallel
