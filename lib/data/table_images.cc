#include "data/table_images.h"

#include "base/check.h"

namespace dptrain {

TableImages::TableImages(const Shape& image_shape, int64_t classes, const Normalization& normalization)
    : image_shape_(image_shape), classes_(classes), table_(normalization_table(normalization, image_shape[0])) {}

void TableImages::image(int64_t index, std::span<float> out) const {
  const int64_t elements = image_shape_.elements();
  DPTRAIN_CHECK(static_cast<int64_t>(out.size()) == elements, "{} floats for an image of {}", out.size(), elements);
  std::vector<uint8_t> bytes(out.size());
  pixels(index, bytes);
  const auto plane = static_cast<size_t>(elements / image_shape_[0]);
  for (size_t begin = 0; begin < out.size(); begin += plane) {
    const float* table = table_.data() + begin / plane * 256;
    for (size_t i = begin; i < begin + plane; ++i) out[i] = table[bytes[i]];
  }
}

void TableImages::check_range(int64_t first, std::span<const uint8_t> pixels) const {
  const int64_t elements = image_shape_.elements(), bytes = static_cast<int64_t>(pixels.size());
  DPTRAIN_CHECK(first >= 0 && bytes % elements == 0 && first + bytes / elements <= samples(),
                "{} bytes of images of {} from {} on, of {}", bytes, elements, first, samples());
}

}  // namespace dptrain
