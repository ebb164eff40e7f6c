#pragma once

#include <algorithm>
#include <cstdint>
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
  /// Those of the weights from `begin` on, a multiple of 16, which are then the first.
  UpdateGroups range(int64_t begin, int64_t elements) const;
};

/// Weights that follow each other and have the same factors; a multiple of 16.
struct UpdateRun {
  int64_t elements = 0;
  UpdateFactors factors = {};
};

/// The groups of runs in a row. The factors differ in at most kMost ways.
UpdateGroups make_update_groups(Device& device, const std::vector<UpdateRun>& runs);

namespace cpu {

/// Calls update(group, begin, count) for all weights in [begin, end), group by group where they lie. `begin` is a
/// multiple of 16.
template <class Update>
void for_each_group(const UpdateGroups& groups, int64_t begin, int64_t end, const Update& update) {
  if (!groups.defined()) return update(size_t{0}, begin, end - begin);
  const auto* of_blocks = groups.of_blocks.data<uint8_t>();
  const int64_t last = (end + UpdateGroups::kBlock - 1) / UpdateGroups::kBlock;
  for (int64_t block = begin / UpdateGroups::kBlock; block < last;) {
    int64_t next = block + 1;
    while (next < last && of_blocks[next] == of_blocks[block]) ++next;
    const int64_t at = block * UpdateGroups::kBlock;
    update(size_t{of_blocks[block]}, at, std::min(next * UpdateGroups::kBlock, end) - at);
    block = next;
  }
}

}  // namespace cpu

}  // namespace dptrain::ops
