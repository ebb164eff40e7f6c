#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/model.h"

namespace dptrain::parallel {

/// Digests of the bits of a device's weights, to compare with other devices.
struct WeightDigests {
  struct Tensor {
    std::string name;
    uint64_t digest = 0;
  };
  /// Kind of the device. Other kinds may round the same update differently.
  DeviceKind kind = DeviceKind::cpu;
  std::vector<Tensor> tensors = {};  ///< empty if the device keeps no weights between steps
};

/// Digests of all parameters on the model's device, including parameters tied to another stage's. Blocks.
WeightDigests digests_of(const nn::Model& model);

/// A weight that differs between two ranks of the world although its bits should be equal.
struct WeightDifference {
  std::string tensor;
  int rank = 0;   ///< differs from most ranks; with two ranks, the second one
  int other = 0;  ///< agrees with most ranks
};

/// Finds the first weight that differs between ranks of the world, given in order. Only devices of the same kind are
/// compared. Returns nothing if all agree.
std::optional<WeightDifference> find_weight_difference(const std::vector<WeightDigests>& by_rank);

}  // namespace dptrain::parallel
