#pragma once

#include <vector>

#include "parallel/key_value_store.h"

namespace dptrain::parallel {

/// Elements [begin, end) of the flat buffers, held by one server of a store: a key or a part of one.
struct StoreSlice {
  size_t key = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int server = 0;
  int dimensions = 0;  ///< of the key's parameter
  ops::UpdateFactors factors = {};

  int64_t elements() const { return end - begin; }
};

/// Deals the keys out to servers. The slices are returned in the order of the keys. Balanced: a key larger than a
/// quarter of a server's share is cut into as many slices as there are servers, at multiples of 16; then all slices,
/// cut or whole, go largest first, each to the server that has the least. Round robin: whole keys, to the server with
/// number key modulo servers.
std::vector<StoreSlice> slice_keys(const std::vector<StoreKey>& keys, int servers, Placement placement);

}  // namespace dptrain::parallel
