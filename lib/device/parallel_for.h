#pragma once

#include <cstdint>

#include "device/device.h"

namespace dptrain {

/// Calls body(i) for every i in [0, count), divided among the device's CPU threads in contiguous parts. The result must
/// not depend on which thread runs an index: keep sums per index and add them in index order afterwards. Calls nothing
/// on a device that computes nothing.
template <class Body>
void parallel_for(const Device& device, int64_t count, const Body& body) {
  if (!device.computes()) return;
  const int threads = static_cast<int>(device.threads() < count ? device.threads() : count);
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < count; ++i) body(i);
}

/// Does the same for a few long units of unequal cost. A thread that has finished one takes the next.
template <class Body>
void parallel_units(const Device& device, int64_t count, const Body& body) {
  if (!device.computes()) return;
  const int threads = static_cast<int>(device.threads() < count ? device.threads() : count);
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (int64_t i = 0; i < count; ++i) body(i);
}

/// Calls body(part, begin, end) for parts of [0, count) of at least `grain` elements. Every part except the last is a
/// multiple of `grain`. Parts are numbered from 0, and there are at most as many as the device has threads.
template <class Body>
void parallel_parts(const Device& device, int64_t count, int64_t grain, const Body& body) {
  const int64_t grains = (count + grain - 1) / grain;
  const int64_t parts = device.threads() < grains ? device.threads() : grains;
  parallel_for(device, parts, [&](int64_t part) {
    const int64_t begin = part * grains / parts * grain;
    const int64_t end = (part + 1) * grains / parts * grain;
    body(part, begin, end < count ? end : count);
  });
}

/// Does the same for a body that doesn't need the part's number: body(begin, end).
template <class Body>
void parallel_ranges(const Device& device, int64_t count, int64_t grain, const Body& body) {
  parallel_parts(device, count, grain, [&](int64_t, int64_t begin, int64_t end) { body(begin, end); });
}

}  // namespace dptrain
