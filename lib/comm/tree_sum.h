#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace dptrain {

/// The most ranks of a world, and so the most addends of one tree: the temporaries of a sum fit on the stack.
inline constexpr int kMostRanks = 4096;

/// How many of `ranks` ranks (2 or more) are in the left half of their tree: the largest power of two below `ranks`.
int tree_left_ranks(int ranks);

/// The type of the sum of several values that is to be added to others.
DType partial_sum_dtype(DType dtype);

/// Whether values of this type can be summed; u8 is for copies alone. Integers wrap around. bf16 and f16 are added in
/// f32, and their sum is rounded once, to nearest.
bool can_sum(DType dtype);

/// A run of a sum's inputs that is a whole subtree of it.
struct InputRun {
  int first = 0;  ///< input
  int inputs = 0;
  int ranks = 0;  ///< of these inputs in all
};

/// The fewest subtrees of at most `most_inputs` inputs each (2 or more) that a sum over inputs of these widths divides
/// into, in order.
std::vector<InputRun> subtrees_of(const std::vector<int>& widths, int most_inputs);

/// How often the two latest sums are added up once each input has been read, where what isn't added up yet is kept on a
/// stack: at the end it is the one sum over all. At most kMostOnStack lie on it at once.
std::vector<int> additions_after(const std::vector<int>& widths);
inline constexpr int kMostOnStack = 13;

/// outputs[k][i] = the sum of inputs[r][i] over r, for every k, in the one order of sums of the project: the balanced
/// binary tree over the inputs, whose left half has `tree_left_ranks` of them. Of one input the sum is a copy.
///
/// Elements are independent of each other: parts may be run by different threads, in any order, without changing a bit.
/// An output may be one of the inputs; apart from that no two of them overlap.
///
/// An input may itself be the sum of a whole subtree, computed elsewhere: `widths` says of how many ranks each is, one
/// each by default, and the order is that of the tree over all these ranks. Sums of several bf16 or f16 that are to be
/// added to others are `partial`: f32, not rounded yet, as inputs of a width above 1 are.
struct TreeSum {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  int64_t elements = 0;
  DType dtype = DType::f32;
  std::vector<int> widths = {};
  bool partial = false;

  /// `widths`, with those that it has by default.
  std::vector<int> widths_of_inputs() const;
  /// Whether there is nothing to add or to round.
  bool is_copy() const;
  /// Sums elements begin to end - 1. The dtype must be one that can be summed, unless there is one input.
  void run(int64_t begin, int64_t end) const noexcept;
};

}  // namespace dptrain
