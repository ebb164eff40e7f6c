#include "data/images_on_device.h"

#include <algorithm>
#include <vector>

namespace dptrain {
namespace {

/// Bytes that are read and uploaded at a time.
constexpr int64_t kUploadBytes = int64_t{16} << 20;

template <class T>
Tensor uploaded(Device& device, const Shape& shape, DType dtype, std::span<const T> values) {
  Tensor tensor = Tensor::empty(device, shape, {.dtype = dtype, .purpose = MemoryPurpose::workspace});
  device.upload(tensor.raw(), values.data(), tensor.bytes());
  return tensor;
}

}  // namespace

ImagesOnDevice::ImagesOnDevice(Device& device, const ImageDataset& dataset, int64_t most_bytes) {
  const Shape image = dataset.image_shape();
  table_ = uploaded(device, {image[0], 256}, DType::f32, dataset.table());
  const int64_t samples = dataset.samples(), elements = image.elements();
  if (samples * elements > most_bytes) return;
  pixels_ = Tensor::empty(device, {samples, image[0], image[1], image[2]},
                          {.dtype = DType::u8, .purpose = MemoryPurpose::workspace});
  std::vector<uint8_t> piece;
  const int64_t step = std::max<int64_t>(1, kUploadBytes / elements);
  for (int64_t first = 0; first < samples; first += step) {
    piece.resize(static_cast<size_t>(std::min(step, samples - first) * elements));
    dataset.pixels(first, piece);
    device.upload(pixels_.raw() + first * elements, piece.data(), static_cast<int64_t>(piece.size()));
  }
  std::vector<int32_t> labels;
  for (int64_t sample = 0; sample < samples; ++sample) labels.push_back(dataset.label(sample));
  labels_ = uploaded(device, {samples}, DType::i32, std::span<const int32_t>(labels));
}

ImagesOnDevice::Batch ImagesOnDevice::batch(const Tensor& ids, ops::DecodeOptions options) const {
  if (!options.augmentations.empty()) options.sample_ids = ids;
  return {.images = ops::decode_images(pixels_, table_, ids, options), .labels = ops::gather_labels(labels_, ids)};
}

Tensor ImagesOnDevice::decoded(const Tensor& pixels, const Tensor& ids, ops::DecodeOptions options) const {
  if (!options.augmentations.empty()) options.sample_ids = ids;
  return ops::decode_images(pixels, table_, Tensor(), options);
}

}  // namespace dptrain
