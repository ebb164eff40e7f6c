#pragma once

#include <cstdint>
#include <functional>
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
  int part = 0;                      ///< which part of sharded weights the device owns
  std::vector<Tensor> tensors = {};  ///< empty if the device keeps no weights between steps
};

/// Digests of all parameters on the model's device, including parameters tied to another stage's. Blocks.
WeightDigests digests_of(const nn::Model& model);
/// Digests of the parts of sharded weights that a device owns: `own_of` returns its part of a parameter, undefined if
/// there is none. Frozen parameters aren't sharded. Blocks.
WeightDigests digests_of_part(const nn::Model& model, int part, const std::function<Tensor(const Parameter&)>& own_of);

/// A weight that differs between two ranks of the world although its bits should be equal.
struct WeightDifference {
  std::string tensor;
  int rank = 0;   ///< differs from most ranks; with two ranks, the second one
  int other = 0;  ///< agrees with most ranks
};

/// Finds the first weight that differs between ranks of the world, given in order. Only devices of the same kind, with
/// the same part of sharded weights, are compared. Returns nothing if all agree.
std::optional<WeightDifference> find_weight_difference(const std::vector<WeightDigests>& by_rank);

}  // namespace dptrain::parallel
