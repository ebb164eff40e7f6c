#include "data/byte_images.h"

#include <utility>

#include "base/check.h"

namespace dptrain {

ByteImages::ByteImages(LabelledBytes data, const Normalization& normalization)
    : data_(std::move(data)), table_(normalization_table(normalization, data_.image_shape[0])) {
  DPTRAIN_CHECK(static_cast<int64_t>(data_.pixels.size()) == samples() * data_.image_shape.elements(),
                "{} bytes for {} images of {}", data_.pixels.size(), samples(), data_.image_shape.text());
}

void ByteImages::image(int64_t index, std::span<float> out) const {
  const int64_t elements = data_.image_shape.elements();
  DPTRAIN_CHECK(index >= 0 && index < samples(), "image {} of {}", index, samples());
  DPTRAIN_CHECK(static_cast<int64_t>(out.size()) == elements, "{} floats for an image of {}", out.size(), elements);
  const int64_t channels = data_.image_shape[0];
  const int64_t plane = elements / channels;
  const uint8_t* bytes = data_.pixels.data() + index * elements;
  for (int64_t c = 0; c < channels; ++c) {
    const float* table = table_.data() + c * 256;
    for (int64_t i = c * plane; i < (c + 1) * plane; ++i) out[static_cast<size_t>(i)] = table[bytes[i]];
  }
}

int32_t ByteImages::label(int64_t index) const {
  DPTRAIN_CHECK(index >= 0 && index < samples(), "label {} of {}", index, samples());
  return data_.labels[static_cast<size_t>(index)];
}

}  // namespace dptrain
