#include "data/batch_part.h"

#include <numeric>

#include "base/check.h"

namespace dptrain {

BatchPart load_part(const ImageDataset& dataset, std::span<const int64_t> samples, Device& device) {
  const Shape image = dataset.image_shape();
  const auto elements = static_cast<size_t>(image.elements());
  const auto count = static_cast<int64_t>(samples.size());

  BatchPart part;
  part.dataset = &dataset;
  part.labels.reserve(samples.size());
  part.sample_ids.assign(samples.begin(), samples.end());
  for (const int64_t sample : samples) part.labels.push_back(dataset.label(sample));
  if (device.kind() != DeviceKind::cpu) return part;
  part.images = Tensor::empty(device, {count, image[0], image[1], image[2]}, {.purpose = MemoryPurpose::activations});
  float* out = part.images.data<float>();
  for (const int64_t sample : samples) {
    dataset.image(sample, {out, elements});
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
