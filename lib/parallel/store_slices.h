#pragma once

#include <vector>

#include "parallel/key_value_store.h"

namespace dptrain::parallel {

/// Elements [begin, end) of the flat buffers that one server of a store has: a key or a part of one.
struct StoreSlice {
  size_t key = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int server = 0;
  int dimensions = 0;  ///< of the key's parameter
  ops::UpdateFactors factors = {};

  int64_t elements() const { return end - begin; }
};

/// Deals keys out over servers, in their order. Balanced: a key that has more than a quarter of a server's share is cut
/// into a slice for each of them, at multiples of 16; then the largest first onto the server that has the least. Round
/// robin: whole keys, key number modulo servers.
std::vector<StoreSlice> slice_keys(const std::vector<StoreKey>& keys, int servers, Placement placement);

}  // namespace dptrain::parallel
