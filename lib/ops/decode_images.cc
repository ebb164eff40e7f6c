#include "ops/decode_images.h"

#include "base/check.h"
#include "ops/decode_images_cpu.h"
#include "ops/decode_images_cuda.h"
#include "ops/dispatch.h"

namespace dptrain::ops {

Tensor decode_images(const Tensor& bytes, const Tensor& table, const Tensor& ids, const DecodeOptions& options) {
  if (ids.defined()) reads_rows(bytes, ids.elements());
  Device& device = common_device("decode_images", {&bytes, &table, &ids, &options.epoch, &options.sample_ids});
  DPTRAIN_CHECK(bytes.shape().rank() == 4, "decode_images: {}", bytes.text());
  require_shape("decode_images", "table", table.shape(), {bytes.shape()[1], 256});
  if (!options.augmentations.empty()) {
    require_shape("decode_images", "epoch", options.epoch.shape(), {1});
    require_shape("decode_images", "sample_ids", options.sample_ids.shape(),
                  {ids.defined() ? ids.elements() : bytes.shape()[0]});
  }
  return on_device(
      "decode_images", device, [&] { return cpu::decode_images(bytes, table, ids, options); },
      [&] { return cuda::decode_images(bytes, table, ids, options); });
}

void decode_augmented_image(std::span<const uint8_t> bytes, std::span<const float> table, const AugmentedImage& image,
                            std::span<float> out) {
  const auto [height, width] = image.size();
  const size_t channels = table.size() / 256, plane = static_cast<size_t>(height) * static_cast<size_t>(width);
  DPTRAIN_CHECK(bytes.size() == channels * plane && out.size() == bytes.size(), "{} bytes of {} x {} x {} into {}",
                bytes.size(), channels, height, width, out.size());
  size_t pixel = 0;
  for (int32_t y = 0; y < height; ++y)
    for (int32_t x = 0; x < width; ++x, ++pixel) {
      const PixelSource source = image.source(y, x);
      const auto write = [&](const auto& byte_of) {
        for (size_t c = 0; c < channels; ++c)
          out[c * plane + pixel] = table[c * 256 + byte_of(bytes.data() + c * plane)];
      };
      // The cases are told apart once for all channels. The two cases that cover most pixels don't use
      // PixelSource::byte, which takes a third longer in the loop.
      if (source.is_mean)
        write([&](const uint8_t* channel) { return source.byte(channel); });
      else if (source.at[0] >= 0)
        write([&](const uint8_t* channel) { return channel[source.at[0]]; });
      else
        write([](const uint8_t*) { return uint8_t{0}; });
    }
}

Tensor gather_labels(const Tensor& values, const Tensor& ids) {
  reads_rows(values, ids.elements());
  Device& device = common_device("gather_labels", {&values, &ids});
  return on_device(
      "gather_labels", device, [&] { return cpu::gather_labels(values, ids); },
      [&] { return cuda::gather_labels(values, ids); });
}

}  // namespace dptrain::ops
