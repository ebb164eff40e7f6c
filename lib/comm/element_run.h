#pragma once

#include <cstdint>

namespace dptrain {

/// A run of a buffer's elements: [begin, end).
struct ElementRun {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t elements() const { return end - begin; }

  /// Part number `part` if `elements` are divided into `parts` nearly equal parts. Parts begin at cache lines, so that
  /// no two parts share one.
  static ElementRun part_of(int64_t elements, int64_t part, int64_t parts) {
    constexpr int64_t kTogether = 16;
    const auto begin = [&](int64_t p) { return p == parts ? elements : elements / kTogether * p / parts * kTogether; };
    return {begin(part), begin(part + 1)};
  }
};

}  // namespace dptrain
