#include "base/random.h"
#include "ops/cuda_kernels.h"
#include "ops/dropout_cuda.h"

namespace dptrain::ops::cuda {
namespace {

/// A thread draws four neighbours in logical order at once. Bound by the 10 rounds of Philox, about 100 instructions
/// for four. `positions` is 0 for plain tensors, else that of nhwc images.
__global__ void mask_kernel(uint8_t* mask, const int64_t* ids, int64_t samples, int64_t elements, int64_t channels,
                            int64_t positions, uint64_t seed, const int32_t* epoch, uint32_t layer,
                            uint32_t threshold) {
  const int64_t groups = (elements + 3) / 4;
  for (int64_t g = global_thread(); g < samples * groups; g += global_threads()) {
    const int64_t n = g / groups, block = g % groups;
    const KeyedRandom random(seed, RandomPurpose::dropout, static_cast<uint32_t>(*epoch),
                             static_cast<uint32_t>(ids[n]));
    const auto words = random.words((uint64_t{layer} << 40) + static_cast<uint64_t>(block));
    for (int64_t i = 4 * block; i < elements && i < 4 * block + 4; ++i) {
      const int64_t at = positions > 0 ? i % positions * channels + i / positions : i;
      mask[n * elements + at] = words[static_cast<size_t>(i - 4 * block)] >= threshold;
    }
  }
}

}  // namespace

void draw_mask(const Tensor& mask, uint32_t threshold, const DropoutKey& key) {
  const int64_t samples = mask.shape()[0], elements = samples > 0 ? mask.elements() / samples : 0;
  if (elements == 0) return;
  const bool images = mask.layout() == Layout::nhwc;
  const int64_t positions = images ? mask.shape()[2] * mask.shape()[3] : 0;
  launch("dropout mask", mask, blocks_for(mask, samples * ((elements + 3) / 4)), kThreads, mask_kernel,
         mask.data<uint8_t>(), key.sample_ids.data<int64_t>(), samples, elements, images ? mask.shape()[1] : int64_t{1},
         positions, key.seed, key.epoch.data<int32_t>(), key.layer, threshold);
}

}  // namespace dptrain::ops::cuda
