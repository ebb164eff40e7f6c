#include "parallel/store_slices.h"

namespace dptrain::parallel {
namespace {

/// All bounds of keys are multiples of this, so that updating the parts gives bit-identical results to updating the
/// whole.
constexpr int64_t kAlignment = 16;

bool is_cut(const StoreKey& key, int64_t all, int servers) { return 4 * servers * (key.end - key.begin) > all; }

}  // namespace

std::vector<StoreSlice> slice_keys(const std::vector<StoreKey>& keys, int servers, Placement placement) {
  std::vector<StoreSlice> slices;
  int64_t all = 0;
  for (const StoreKey& key : keys) all += key.end - key.begin;
  for (size_t k = 0; k < keys.size(); ++k) {
    const bool cuts = servers > 1 && placement == Placement::balanced && is_cut(keys[k], all, servers);
    const int64_t parts = cuts ? servers : 1, blocks = (keys[k].end - keys[k].begin) / kAlignment;
    for (int64_t part = 0; part < parts; ++part) {
      const StoreSlice slice{.key = k,
                             .begin = keys[k].begin + part * blocks / parts * kAlignment,
                             .end = keys[k].begin + (part + 1) * blocks / parts * kAlignment,
                             .dimensions = keys[k].dimensions,
                             .factors = keys[k].factors};
      if (slice.elements() > 0) slices.push_back(slice);
    }
  }
  std::vector<int64_t> elements;
  for (const StoreSlice& slice : slices) elements.push_back(slice.elements());
  const std::vector<int> places = place_keys(elements, servers, placement);
  for (size_t i = 0; i < slices.size(); ++i) slices[i].server = places[i];
  return slices;
}

}  // namespace dptrain::parallel
