#include "data/images_on_device.h"

#include <algorithm>
#include <vector>

namespace dptrain {
namespace {

/// Read and uploaded at once.
constexpr int64_t kUploadBytes = int64_t{16} << 20;

template <class T>
Tensor uploaded(Device& device, const Shape& shape, DType dtype, std::span<const T> values) {
  Tensor tensor = Tensor::empty(device, shape, {.dtype = dtype, .purpose = MemoryPurpose::workspace});
  device.upload(tensor.raw(), values.data(), tensor.bytes());
  return tensor;
}

}  // namespace

ImagesOnDevice::ImagesOnDevice(Device& device, const ImageDataset& dataset, int64_t most_bytes)
    : device_(device), dataset_(dataset) {
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

ImagesOnDevice::Batch ImagesOnDevice::batch(const Tensor& ids, std::span<const int64_t> numbers,
                                            ops::DecodeOptions options) const {
  if (!options.augmentations.empty()) options.sample_ids = ids;
  if (!resident()) return staged(numbers, options);
  return {.images = ops::decode_images(pixels_, table_, ids, options), .labels = ops::gather_labels(labels_, ids)};
}

ImagesOnDevice::Batch ImagesOnDevice::staged(std::span<const int64_t> numbers,
                                             const ops::DecodeOptions& options) const {
  const Shape image = dataset_.image_shape();
  const auto count = static_cast<int64_t>(numbers.size()), elements = image.elements();
  std::vector<uint8_t> pixels(static_cast<size_t>(count * elements));
  std::vector<int32_t> labels;
  for (size_t n = 0; n < numbers.size(); ++n) {
    const auto image_bytes = static_cast<size_t>(elements);
    dataset_.pixels(numbers[n], std::span(pixels).subspan(n * image_bytes, image_bytes));
    labels.push_back(dataset_.label(numbers[n]));
  }
  const Tensor on_device =
      uploaded(device_, {count, image[0], image[1], image[2]}, DType::u8, std::span<const uint8_t>(pixels));
  return {.images = ops::decode_images(on_device, table_, Tensor(), options),
          .labels = uploaded(device_, {count}, DType::i32, std::span<const int32_t>(labels))};
}

}  // namespace dptrain
