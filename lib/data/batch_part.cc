#include "data/batch_part.h"

#include <numeric>

#include "base/check.h"
#include "ops/decode_images.h"

namespace dptrain {
namespace {

void load_augmented(const ImageDataset& dataset, int64_t sample, const PartAugmentation& augmentation,
                    std::span<float> out) {
  const ImageBytes data = dataset.bytes();
  const Shape shape = dataset.image_shape();
  const ops::AugmentedImage image(augmentation.augmentations,
                                  {.height = static_cast<int32_t>(shape[1]), .width = static_cast<int32_t>(shape[2])},
                                  static_cast<uint32_t>(augmentation.epoch), static_cast<uint32_t>(sample));
  ops::decode_augmented_image(data.pixels.subspan(static_cast<size_t>(sample) * out.size(), out.size()), data.table,
                              image, out);
}

}  // namespace

BatchPart load_part(const ImageDataset& dataset, std::span<const int64_t> samples, Device& device,
                    const PartAugmentation& augmentation) {
  const Shape image = dataset.image_shape();
  const auto elements = static_cast<size_t>(image.elements());
  const auto count = static_cast<int64_t>(samples.size());

  BatchPart part;
  part.dataset = &dataset;
  part.augmentations = augmentation.augmentations;
  part.labels.reserve(samples.size());
  part.sample_ids.assign(samples.begin(), samples.end());
  for (const int64_t sample : samples) part.labels.push_back(dataset.label(sample));
  if (device.kind() != DeviceKind::cpu) return part;
  part.images = Tensor::empty(device, {count, image[0], image[1], image[2]}, {.purpose = MemoryPurpose::activations});
  float* out = part.images.data<float>();
  for (const int64_t sample : samples) {
    if (augmentation.augmentations.empty())
      dataset.image(sample, {out, elements});
    else
      load_augmented(dataset, sample, augmentation, {out, elements});
    out += elements;
  }
  return part;
}

BatchPart load_block(const ImageDataset& dataset, int64_t begin, int64_t end, Device& device) {
  DPTRAIN_CHECK(0 <= begin && begin <= end && end <= dataset.samples(), "samples {} to {} of {}", begin, end,
                dataset.samples());
  std::vector<int64_t> samples(static_cast<size_t>(end - begin));
  std::iota(samples.begin(), samples.end(), begin);
  return load_part(dataset, samples, device);
}

}  // namespace dptrain
