#include "parallel/image_bytes.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace dptrain::parallel {
namespace {

int64_t bytes_of_images(const BatchPart& part) { return part.samples() * part.dataset->image_shape().elements(); }

}  // namespace

int64_t count_image_numbers(const BatchPart& part) { return part.samples() + (bytes_of_images(part) + 3) / 4; }

int32_t* write_image_numbers(const BatchPart& part, int32_t* out) {
  int32_t* const end = out + count_image_numbers(part);
  out = std::ranges::copy(part.targets[0], out).out;
  auto* bytes = reinterpret_cast<uint8_t*>(out);
  const auto of_image = static_cast<size_t>(part.dataset->image_shape().elements());
  for (const int64_t sample : part.sample_ids) {
    part.dataset->pixels(sample, std::span(bytes, of_image));
    bytes += of_image;
  }
  return end;
}

ImageBytes cut_image_numbers(const Tensor& numbers, const BatchPart& part) {
  DPTRAIN_CHECK(numbers.elements() == count_image_numbers(part), "{} numbers of images, {} expected",
                numbers.elements(), count_image_numbers(part));
  const int64_t samples = part.samples();
  const Shape image = part.dataset->image_shape();
  return {.pixels = numbers.as_bytes().part(4 * samples, DType::u8, {samples, image[0], image[1], image[2]}),
          .labels = numbers.window(0, {samples}, Layout::plain)};
}

}  // namespace dptrain::parallel
