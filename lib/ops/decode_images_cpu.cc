#include "ops/decode_images_cpu.h"

#include "ops/f32_pieces.h"

namespace dptrain::ops::cpu {
namespace {

Tensor decode_augmented_images(const Tensor& bytes, const Tensor& table, const Tensor& ids,
                               const DecodeOptions& options) {
  const int64_t samples = options.sample_ids.elements();
  const Shape shape = bytes.shape().with_first(samples);
  const auto elements = static_cast<size_t>(shape[1] * shape[2] * shape[3]);
  const ImageSize size{.height = static_cast<int32_t>(shape[2]), .width = static_cast<int32_t>(shape[3])};
  const auto epoch = static_cast<uint32_t>(options.epoch.data<int32_t>()[0]);
  Tensor images = Tensor::empty(bytes.device(), shape, {.dtype = options.dtype});
  for_each_unit(images, samples, static_cast<int64_t>(elements), [&](int64_t n, Pieces& pieces) {
    const auto from = static_cast<size_t>(ids.defined() ? ids.data<int64_t>()[n] : n);
    const auto sample = static_cast<uint32_t>(options.sample_ids.data<int64_t>()[n]);
    decode_augmented_image(
        {bytes.data<uint8_t>() + from * elements, elements},
        {table.data<float>(), static_cast<size_t>(table.elements())},
        AugmentedImage(options.augmentations, size, epoch, sample),
        {pieces.write(images, n * static_cast<int64_t>(elements), static_cast<int64_t>(elements)), elements});
  });
  return images;
}

}  // namespace

Tensor decode_images(const Tensor& bytes, const Tensor& table, const Tensor& ids, const DecodeOptions& options) {
  if (!options.augmentations.empty()) return decode_augmented_images(bytes, table, ids, options);
  const int64_t samples = ids.defined() ? ids.elements() : bytes.shape()[0];
  const Shape shape = bytes.shape().with_first(samples);
  const int64_t channels = shape[1], plane = shape[2] * shape[3];
  Tensor images = Tensor::empty(bytes.device(), shape, {.dtype = options.dtype});
  for_each_unit(images, samples * channels, plane, [&](int64_t i, Pieces& pieces) {
    const int64_t n = i / channels, c = i % channels;
    const int64_t sample = ids.defined() ? ids.data<int64_t>()[n] : n;
    const uint8_t* in = bytes.data<uint8_t>() + (sample * channels + c) * plane;
    float* out = pieces.write(images, i * plane, plane);
    for (int64_t p = 0; p < plane; ++p) out[p] = table.data<float>()[c * 256 + in[p]];
  });
  return images;
}

Tensor gather_labels(const Tensor& values, const Tensor& ids) {
  Tensor labels = Tensor::empty(ids.device(), ids.shape(), {.dtype = DType::i32});
  if (!ids.device().computes()) return labels;
  for (int64_t n = 0; n < ids.elements(); ++n)
    labels.data<int32_t>()[n] = values.data<int32_t>()[ids.data<int64_t>()[n]];
  return labels;
}

}  // namespace dptrain::ops::cpu
