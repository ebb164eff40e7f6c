#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace dptrain {

/// The most ranks of a world, and so the most addends of one tree. A sum's temporaries fit on the stack.
inline constexpr int kMostRanks = 4096;

/// How many of `ranks` ranks (2 or more) are in the left half of their tree: the largest power of two below `ranks`.
int tree_left_ranks(int ranks);

/// The type of a sum of several values that other values will be added to.
DType partial_sum_dtype(DType dtype);

/// Whether values of this type can be summed; u8 can only be copied. Integers wrap around. bf16 and f16 are added in
/// f32, and their sum is rounded once, to nearest.
bool can_sum(DType dtype);

/// A run of a sum's inputs that forms a whole subtree.
struct InputRun {
  int first = 0;  ///< the first input
  int inputs = 0;
  int ranks = 0;  ///< that these inputs sum up
};

/// Divides a sum over inputs of these widths into the fewest subtrees of at most `most_inputs` inputs each (2 or more),
/// in order.
std::vector<InputRun> subtrees_of(const std::vector<int>& widths, int most_inputs);

/// How many additions follow each input. Inputs are read in order and pushed on a stack; each addition replaces the two
/// latest values on it by their sum. In the end only the whole sum is left. The stack never holds more than
/// kMostOnStack values.
std::vector<int> additions_after(const std::vector<int>& widths);
inline constexpr int kMostOnStack = 13;

/// A sum in the project's one order: outputs[k][i] = the sum of inputs[r][i] over r, for every k. The order is the
/// balanced binary tree over the inputs, whose left half has `tree_left_ranks` of them. The sum of one input is a copy.
///
/// Elements are independent of each other. Different threads may run parts of them, in any order, without changing a
/// bit. An output may be one of the inputs; apart from that, no two of them overlap.
///
/// An input may itself be the sum of a whole subtree, computed elsewhere. `widths` says how many ranks each input
/// covers, by default one each, and the order is that of the tree over all these ranks. A sum of several bf16 or f16
/// values that will be added to others is `partial`: f32, not rounded yet. Inputs of a width above 1 are such sums.
struct TreeSum {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  int64_t elements = 0;
  DType dtype = DType::f32;
  std::vector<int> widths = {};
  bool partial = false;

  /// `widths`, or ones if it is empty.
  std::vector<int> widths_of_inputs() const;
  /// Whether there is nothing to add or to round.
  bool is_copy() const;
  /// Sums elements begin to end - 1. The dtype must be one that can be summed, unless there is only one input.
  void run(int64_t begin, int64_t end) const noexcept;
};

}  // namespace dptrain
