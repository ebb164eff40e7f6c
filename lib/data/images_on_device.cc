#include "data/images_on_device.h"

#include <algorithm>
#include <vector>

namespace dptrain {
namespace {

template <class T>
Tensor uploaded(Device& device, const Shape& shape, DType dtype, std::span<const T> values) {
  Tensor tensor = Tensor::empty(device, shape, {.dtype = dtype, .purpose = MemoryPurpose::workspace});
  device.upload(tensor.raw(), values.data(), tensor.bytes());
  return tensor;
}

}  // namespace

ImagesOnDevice::ImagesOnDevice(Device& device, const ImageDataset& dataset, int64_t most_bytes)
    : device_(device), dataset_(dataset) {
  const ImageBytes bytes = dataset.bytes();
  const Shape image = dataset.image_shape();
  table_ = uploaded(device, {image[0], 256}, DType::f32, bytes.table);
  if (static_cast<int64_t>(bytes.pixels.size()) > most_bytes) return;
  const int64_t samples = dataset.samples();
  pixels_ = uploaded(device, {samples, image[0], image[1], image[2]}, DType::u8, bytes.pixels);
  labels_ = uploaded(device, {samples}, DType::i32, bytes.labels);
}

ImagesOnDevice::Batch ImagesOnDevice::batch(const Tensor& ids, std::span<const int64_t> numbers,
                                            ops::DecodeOptions options) const {
  if (!options.augmentations.empty()) options.sample_ids = ids;
  if (!resident()) return staged(numbers, options);
  return {.images = ops::decode_images(pixels_, table_, ids, options), .labels = ops::gather_labels(labels_, ids)};
}

ImagesOnDevice::Batch ImagesOnDevice::staged(std::span<const int64_t> numbers,
                                             const ops::DecodeOptions& options) const {
  const ImageBytes bytes = dataset_.bytes();
  const Shape image = dataset_.image_shape();
  const auto count = static_cast<int64_t>(numbers.size()), elements = image.elements();
  std::vector<uint8_t> pixels(static_cast<size_t>(count * elements));
  std::vector<int32_t> labels;
  for (size_t n = 0; n < numbers.size(); ++n) {
    std::copy_n(bytes.pixels.begin() + numbers[n] * elements, elements,
                pixels.begin() + static_cast<int64_t>(n) * elements);
    labels.push_back(bytes.labels[static_cast<size_t>(numbers[n])]);
  }
  const Tensor on_device =
      uploaded(device_, {count, image[0], image[1], image[2]}, DType::u8, std::span<const uint8_t>(pixels));
  return {.images = ops::decode_images(on_device, table_, Tensor(), options),
          .labels = uploaded(device_, {count}, DType::i32, std::span<const int32_t>(labels))};
}

}  // namespace dptrain
