#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace dptrain::ops {

/// What an update's numbers are multiplied by for some weights: Caffe's and MXNet's lr_mult and wd_mult.
struct UpdateFactors {
  double learning_rate = 1;
  double weight_decay = 1;
  bool operator==(const UpdateFactors&) const = default;
};

/// Which weights of a flat buffer are updated by which factors, told of blocks of 16 weights. Both undefined where no
/// factor is another than 1.
struct UpdateGroups {
  static constexpr int64_t kBlock = 16;
  static constexpr int64_t kMost = 64;  ///< groups: a block of a GPU's threads keeps the numbers of each

  Tensor factors = {};    ///< f64 [groups, 2]: of the learning rate, of the weight decay
  Tensor of_blocks = {};  ///< u8 [blocks]: the group

  bool defined() const { return factors.defined(); }
  int64_t count() const { return defined() ? factors.shape()[0] : 1; }
  /// Those of `elements` weights from `begin` on, a multiple of 16.
  UpdateGroups range(int64_t begin, int64_t elements) const;
};

/// Weights that follow each other and have the same factors; a multiple of 16.
struct UpdateRun {
  int64_t elements = 0;
  UpdateFactors factors = {};
};

/// The groups of runs in a row. The factors differ in at most kMost ways.
UpdateGroups make_update_groups(Device& device, const std::vector<UpdateRun>& runs);

/// Throws 70, naming the operator, where there are groups and not one for each of so many weights.
void require_groups(std::string_view op, const UpdateGroups& groups, int64_t weights);

}  // namespace dptrain::ops
