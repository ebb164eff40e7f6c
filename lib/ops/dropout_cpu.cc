#include "ops/dropout_cpu.h"

#include <algorithm>

#include "base/random.h"
#include "device/parallel_for.h"
#include "ops/image_offsets.h"

namespace dptrain::ops::cpu {

void draw_mask(const Tensor& mask, uint32_t threshold, const DropoutKey& key) {
  const int64_t samples = mask.shape()[0];
  const bool images = mask.layout() != Layout::plain;
  const int64_t elements = samples > 0 ? mask.elements() / samples : 0;
  const int64_t positions = images ? mask.shape()[2] * mask.shape()[3] : elements;
  auto* out = mask.data<uint8_t>();
  parallel_for(mask.device(), samples, [&](int64_t n) {
    const KeyedRandom random(key.seed, RandomPurpose::dropout, static_cast<uint32_t>(key.epoch.data<int32_t>()[0]),
                             static_cast<uint32_t>(key.sample_ids.data<int64_t>()[n]));
    const uint64_t layer = uint64_t{key.layer} << 40;
    for (int64_t block = 0; 4 * block < elements; ++block) {
      const auto words = random.words(layer + static_cast<uint64_t>(block));
      for (int64_t i = 4 * block; i < std::min(4 * block + 4, elements); ++i) {
        const int64_t at = images ? ImageOffsets(mask)(n, i / positions, i % positions) : n * elements + i;
        out[at] = words[static_cast<size_t>(i % 4)] >= threshold;
      }
    }
  });
}

}  // namespace dptrain::ops::cpu
