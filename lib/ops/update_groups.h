#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Factors of an update's numbers for some weights: Caffe's and MXNet's lr_mult and wd_mult.
struct UpdateFactors {
  double learning_rate = 1;
  double weight_decay = 1;
  bool operator==(const UpdateFactors&) const = default;
};

/// Which weights of a flat buffer are updated with which factors, by blocks of 16 weights. Both tensors are undefined
/// if all factors are 1.
struct UpdateGroups {
  static constexpr int64_t kBlock = 16;
  static constexpr int64_t kMost = 64;  ///< most groups: a GPU's thread block keeps the numbers of each

  Tensor factors = {};    ///< f64 [groups, 2]: factors of the learning rate and the weight decay
  Tensor of_blocks = {};  ///< u8 [blocks]: each block's group

  bool defined() const { return factors.defined(); }
  int64_t count() const { return defined() ? factors.shape()[0] : 1; }
  /// Returns the groups of `elements` weights from `begin` on, a multiple of 16.
  UpdateGroups range(int64_t begin, int64_t elements) const;
};

/// Consecutive weights with the same factors; a multiple of 16.
struct UpdateRun {
  int64_t elements = 0;
  UpdateFactors factors = {};
};

/// Makes the groups of consecutive runs. There may be at most kMost different pairs of factors.
UpdateGroups make_update_groups(Device& device, const std::vector<UpdateRun>& runs);

/// Throws 70, naming the operator, if the groups are defined but don't cover `weights` weights.
void require_groups(std::string_view op, const UpdateGroups& groups, int64_t weights);

}  // namespace dptrain::ops
