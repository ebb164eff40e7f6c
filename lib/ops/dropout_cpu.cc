#include "ops/dropout_cpu.h"

#include <algorithm>

#include "base/random.h"
#include "device/parallel_for.h"
#include "ops/dropout_kernels.h"
#include "ops/image_offsets.h"

namespace dptrain::ops::cpu {
namespace {

/// Calls body for kDropoutGrain elements at a time, or for those that are left, in a sample's logical order, whatever
/// its layout.
template <class Body>
void for_each_grain(const Tensor& mask, const Body& body) {
  const int64_t samples = mask.shape()[0], elements = samples > 0 ? mask.elements() / samples : 0;
  const int64_t grains = (elements + kDropoutGrain - 1) / kDropoutGrain;
  parallel_ranges(mask.device(), samples * grains, 1, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t n = begin / grains, last = std::min(end, (n + 1) * grains);
      body(n, begin % grains * kDropoutGrain, std::min(elements, (last - n * grains) * kDropoutGrain));
      begin = last;
    }
  });
}

}  // namespace

RandomCounter dropout_counter(const DropoutKey& key, int64_t sample) {
  const auto epoch = static_cast<uint32_t>(key.epoch.data<int32_t>()[0]);
  const auto subject = static_cast<uint32_t>(key.sample_ids.data<int64_t>()[sample]);
  const auto words = KeyedRandom(key.seed, RandomPurpose::dropout, epoch, subject).key();
  // A layer's blocks begin at its number times 2^40.
  return {.key = {words[0], words[1]}, .upper = key.layer << 8, .subject = subject, .epoch = epoch};
}

void draw_mask_rows(const Tensor& mask, int64_t begin, int64_t end, uint32_t threshold, const DropoutKey& key) {
  const int64_t width = mask.shape()[-1];
  const int64_t rows_of_sample =
      key.rows.defined() ? key.sequence : mask.elements() / width / key.sample_ids.elements();
  for (int64_t row = begin; row < end; ++row) {
    const int64_t among_all = key.rows.defined() ? key.rows.data<int32_t>()[row] : row;
    const int64_t first = among_all % rows_of_sample * width, before = first % kDropoutGrain;
    const RandomCounter counter = dropout_counter(key, among_all / rows_of_sample);
    uint8_t* to = mask.data<uint8_t>() + row * width;
    if (before == 0) {
      dropout_kernels().draw(counter, first, width, threshold, to);
      continue;
    }
    // The row may begin inside a block of words.
    for (int64_t at = -before; at < width; at += kDropoutGrain) {
      uint8_t drawn[kDropoutGrain];
      dropout_kernels().draw(counter, first + at, kDropoutGrain, threshold, drawn);
      for (int64_t i = std::max<int64_t>(at, 0); i < std::min(at + kDropoutGrain, width); ++i) to[i] = drawn[i - at];
    }
  }
}

void draw_mask(const Tensor& mask, uint32_t threshold, const DropoutKey& key) {
  if (key.rows.defined())
    return parallel_ranges(mask.device(), mask.shape()[0], 1,
                           [&](int64_t begin, int64_t end) { draw_mask_rows(mask, begin, end, threshold, key); });
  const int64_t elements = mask.shape()[0] > 0 ? mask.elements() / mask.shape()[0] : 0;
  auto* out = mask.data<uint8_t>();
  if (mask.layout() == Layout::plain) {
    for_each_grain(mask, [&](int64_t n, int64_t first, int64_t last) {
      dropout_kernels().draw(dropout_counter(key, n), first, last - first, threshold, out + n * elements + first);
    });
    return;
  }
  const int64_t positions = mask.shape()[2] * mask.shape()[3];
  const ImageOffsets offsets(mask);
  for_each_grain(mask, [&](int64_t n, int64_t first, int64_t last) {
    const RandomCounter counter = dropout_counter(key, n);
    for (int64_t begin = first; begin < last; begin += kDropoutGrain) {
      uint8_t drawn[kDropoutGrain];
      const int64_t end = std::min(begin + kDropoutGrain, last);
      dropout_kernels().draw(counter, begin, end - begin, threshold, drawn);
      for (int64_t i = begin; i < end; ++i) out[offsets(n, i / positions, i % positions)] = drawn[i - begin];
    }
  });
}

}  // namespace dptrain::ops::cpu
