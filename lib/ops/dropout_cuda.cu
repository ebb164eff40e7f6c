#include "base/random.h"
#include "ops/cuda_kernels.h"
#include "ops/dropout_cuda.h"

namespace dptrain::ops::cuda {
namespace {

/// Which elements of which samples a mask covers: all elements of each sample, or rows; see DropoutKey.
struct MaskedElements {
  const int32_t* rows;
  int64_t sequence, width;

  __device__ int64_t sample(int64_t n) const { return rows == nullptr ? n : rows[n] / sequence; }
  __device__ int64_t first(int64_t n) const { return rows == nullptr ? 0 : rows[n] % sequence * width; }
};

/// A thread draws four elements, neighbors in logical order, at once. The kernel is bound by the 10 rounds of Philox,
/// about 100 instructions for four elements. `positions` is 0 for plain tensors, else the number of positions of nhwc
/// images. Index is the type for counting groups of four.
template <class Index>
__global__ void mask_kernel(uint8_t* mask, const int64_t* ids, MaskedElements masked, int64_t samples, int64_t elements,
                            int64_t channels, int64_t positions, uint64_t seed, const int32_t* epoch, uint32_t layer,
                            uint32_t threshold) {
  // A row may begin and end inside a group of four.
  const auto groups = static_cast<Index>((elements + 3) / 4 + (masked.rows != nullptr));
  const auto all = static_cast<Index>(samples) * groups;
  for (auto g = static_cast<Index>(global_thread()); g < all; g += static_cast<Index>(global_threads())) {
    const Index sample = g / groups;
    const int64_t n = sample, first = masked.first(n), block = first / 4 + (g - sample * groups);
    const KeyedRandom random(seed, RandomPurpose::dropout, static_cast<uint32_t>(*epoch),
                             static_cast<uint32_t>(ids[masked.sample(n)]));
    const auto words = random.words((uint64_t{layer} << 40) + static_cast<uint64_t>(block));
    const auto kept = [&](int word) { return static_cast<uint32_t>(words[static_cast<size_t>(word)] >= threshold); };
    const int64_t begin = 4 * block - first;
    uint8_t* const out = mask + n * elements + begin;
    if (positions == 0 && begin >= 0 && begin + 4 <= elements && reinterpret_cast<uintptr_t>(out) % 4 == 0) {
      *reinterpret_cast<uint32_t*>(out) = kept(0) | kept(1) << 8 | kept(2) << 16 | kept(3) << 24;
      continue;
    }
    for (int word = 0; word < 4; ++word) {
      const int64_t i = begin + word;
      if (i < 0 || i >= elements) continue;
      const int64_t at = positions > 0 ? i % positions * channels + i / positions : i;
      mask[n * elements + at] = static_cast<uint8_t>(kept(word));
    }
  }
}

}  // namespace

void draw_mask(const Tensor& mask, uint32_t threshold, const DropoutKey& key) {
  const int64_t samples = mask.shape()[0], elements = samples > 0 ? mask.elements() / samples : 0;
  if (elements == 0) return;
  const bool images = mask.layout() == Layout::nhwc;
  const int64_t positions = images ? mask.shape()[2] * mask.shape()[3] : 0;
  const MaskedElements masked{
      .rows = key.rows.defined() ? key.rows.data<int32_t>() : nullptr, .sequence = key.sequence, .width = elements};
  const int64_t groups = samples * ((elements + 3) / 4 + 1);
  const auto kernel = groups < int64_t{1} << 31 ? mask_kernel<uint32_t> : mask_kernel<int64_t>;
  launch("dropout mask", mask, blocks_for(mask, groups), kThreads, kernel, mask.data<uint8_t>(),
         key.sample_ids.data<int64_t>(), masked, samples, elements, images ? mask.shape()[1] : int64_t{1}, positions,
         key.seed, key.epoch.data<int32_t>(), key.layer, threshold);
}

}  // namespace dptrain::ops::cuda
