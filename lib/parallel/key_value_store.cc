#include "parallel/key_value_store.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace dptrain::parallel {

std::vector<int> place_keys(const std::vector<int64_t>& elements, int places, Placement placement) {
  std::vector<int> place_of(elements.size());
  if (placement == Placement::round_robin) {
    for (size_t key = 0; key < elements.size(); ++key) place_of[key] = static_cast<int>(key) % places;
    return place_of;
  }
  std::vector<size_t> by_size(elements.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::ranges::stable_sort(by_size, [&](size_t a, size_t b) { return elements[a] > elements[b]; });
  std::vector<int64_t> held(static_cast<size_t>(places));
  for (const size_t key : by_size) {
    const auto least = std::ranges::min_element(held);
    *least += elements[key];
    place_of[key] = static_cast<int>(least - held.begin());
  }
  return place_of;
}

std::vector<StoreKey> keys_of(const nn::Model& model) {
  std::vector<StoreKey> keys;
  for (const Parameter* parameter : model.parameters())
    keys.push_back({.name = parameter->name(),
                    .begin = model.offset(*parameter),
                    .end = model.end_offset(*parameter),
                    .dimensions = parameter->shape().rank(),
                    .factors = parameter->update_factors()});
  return keys;
}

void KeyValueStore::init(std::vector<StoreKey> keys) {
  DPTRAIN_CHECK(keys_.empty(), "a store of {} keys is given keys again", keys_.size());
  keys_ = std::move(keys);
  for (size_t i = 0; i < keys_.size(); ++i)
    DPTRAIN_CHECK(places_.emplace(keys_[i].name, i).second, "key '{}' stands twice among a store's", keys_[i].name);
  pushed_.resize(keys_.size());
  take_in();
}

size_t KeyValueStore::index_of(const std::string& key) const {
  const auto found = places_.find(key);
  DPTRAIN_CHECK(found != places_.end(), "key '{}' is none of the store's {}", key, keys_.size());
  return found->second;
}

void KeyValueStore::push(const std::string& key) {
  const size_t index = index_of(key);
  DPTRAIN_CHECK(pushed_[index] == nullptr, "key '{}' is pushed twice in a step", key);
  pushed_[index] = start_sum(index);
}

void KeyValueStore::wait_for_pushes() {
  for (size_t i = 0; i < pushed_.size(); ++i) {
    DPTRAIN_CHECK(pushed_[i] != nullptr, "key '{}' is waited for and wasn't pushed", keys_[i].name);
    pushed_[i]->wait();
    pushed_[i].reset();
  }
}

}  // namespace dptrain::parallel
