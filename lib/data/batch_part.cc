#include "data/batch_part.h"

#include <numeric>

#include "base/check.h"
#include "base/error.h"

namespace dptrain {

BatchPart load_part(const ImageDataset& dataset, std::span<const int64_t> samples, Device& device) {
  if (device.kind() != DeviceKind::cpu)
    throw Error(ExitCode::device, device.name() + ": images are decoded into CPU memory only; use --devices cpu:0-1");
  const Shape image = dataset.image_shape();
  const auto elements = static_cast<size_t>(image.elements());
  const auto count = static_cast<int64_t>(samples.size());

  BatchPart part;
  part.images = Tensor::empty(device, {count, image[0], image[1], image[2]}, {.purpose = MemoryPurpose::activations});
  part.labels.reserve(samples.size());
  part.sample_ids.assign(samples.begin(), samples.end());
  float* out = part.images.data<float>();
  for (const int64_t sample : samples) {
    dataset.image(sample, {out, elements});
    part.labels.push_back(dataset.label(sample));
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
