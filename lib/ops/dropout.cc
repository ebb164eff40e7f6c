#include "ops/dropout.h"

#include "base/check.h"
#include "base/random.h"
#include "device/parallel_for.h"
#include "ops/dispatch.h"
#include "ops/elementwise_kernels.h"
#include "ops/image_offsets.h"

namespace dptrain::ops {
namespace {

constexpr int64_t kGrain = 16384;

/// Draws the mask in logical order (channel by channel), so that every layout drops the same elements.
void draw_mask(const Tensor& x, uint32_t threshold, const DropoutKey& key, uint8_t* mask) {
  const int64_t samples = x.shape()[0];
  const bool images = x.layout() != Layout::plain;
  const int64_t elements = samples > 0 ? x.elements() / samples : 0;
  const int64_t positions = images ? x.shape()[2] * x.shape()[3] : elements;
  parallel_for(x.device(), samples, [&](int64_t n) {
    const KeyedRandom random(key.seed, RandomPurpose::dropout, key.epoch, static_cast<uint32_t>(key.sample_ids[n]));
    const uint64_t layer = uint64_t{key.layer} << 40;
    for (int64_t block = 0; 4 * block < elements; ++block) {
      const auto words = random.words(layer + static_cast<uint64_t>(block));
      for (int64_t i = 4 * block; i < std::min(4 * block + 4, elements); ++i) {
        const int64_t at = images ? ImageOffsets(x)(n, i / positions, i % positions) : n * elements + i;
        mask[at] = words[static_cast<size_t>(i % 4)] >= threshold;
      }
    }
  });
}

}  // namespace

DropoutResult dropout_forward(const Tensor& x, float probability, const DropoutKey& key) {
  Device& device = common_device("dropout", {&x});
  DPTRAIN_CHECK(probability >= 0.f && probability < 1.f, "dropout: probability {}", probability);
  DPTRAIN_CHECK(static_cast<int64_t>(key.sample_ids.size()) == x.shape()[0], "dropout: {} sample ids for {}",
                key.sample_ids.size(), x.text());
  if (device.kind() != DeviceKind::cpu) no_implementation("dropout", device);
  DropoutResult result{.y = Tensor::empty(device, x.shape(), {.layout = x.layout()}),
                       .mask = Tensor::zeros(device, x.shape(), {.dtype = DType::u8, .layout = x.layout()})};
  const auto threshold = static_cast<uint32_t>(static_cast<double>(probability) * 0x1.0p32);
  draw_mask(x, threshold, key, result.mask.data<uint8_t>());
  parallel_ranges(device, x.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    elementwise_kernels().masked_scale(x.data<float>() + begin, result.mask.data<uint8_t>() + begin,
                                       1.f / (1.f - probability), result.y.data<float>() + begin, end - begin);
  });
  return result;
}

Tensor dropout_backward(const Tensor& mask, const Tensor& output_gradient, float probability) {
  Device& device = common_device("dropout backward", {&mask, &output_gradient});
  DPTRAIN_CHECK(mask.layout() == output_gradient.layout() && mask.shape() == output_gradient.shape(),
                "dropout backward: mask {} and gradient {}", mask.text(), output_gradient.text());
  if (device.kind() != DeviceKind::cpu) no_implementation("dropout backward", device);
  Tensor gradient = Tensor::empty(device, mask.shape(), {.layout = mask.layout()});
  parallel_ranges(device, mask.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    elementwise_kernels().masked_scale(output_gradient.data<float>() + begin, mask.data<uint8_t>() + begin,
                                       1.f / (1.f - probability), gradient.data<float>() + begin, end - begin);
  });
  return gradient;
}

}  // namespace dptrain::ops
