#include "data/byte_images.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"

namespace dptrain {
namespace {

std::string digest_of(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex_digest();
}

}  // namespace

ByteImages::ByteImages(LabelledBytes data, const Normalization& normalization, Digest digest)
    : TableImages(data.image_shape, data.classes, normalization), data_(std::move(data)), digest_(std::move(digest)) {
  DPTRAIN_CHECK(static_cast<int64_t>(data_.pixels.size()) == samples() * data_.image_shape.elements(),
                "{} bytes for {} images of {}", data_.pixels.size(), samples(), data_.image_shape.text());
}

int64_t ByteImages::held_bytes() const {
  return static_cast<int64_t>(data_.pixels.size() + data_.labels.size() * sizeof(int32_t));
}

int32_t ByteImages::label(int64_t index) const {
  DPTRAIN_CHECK(index >= 0 && index < samples(), "label {} of {}", index, samples());
  return data_.labels[static_cast<size_t>(index)];
}

void ByteImages::pixels(int64_t first, std::span<uint8_t> out) const {
  check_range(first, out);
  std::copy_n(data_.pixels.begin() + first * data_.image_shape.elements(), out.size(), out.begin());
}

std::string ByteImages::digest_of_bytes(const LabelledBytes& data) {
  return content_digest_of(digest_of_pixels(data), data.labels);
}

std::string digest_of_pixels(const LabelledBytes& data) { return digest_of(std::as_bytes(std::span(data.pixels))); }

std::string content_digest_of(const std::string& pixels, const std::vector<int32_t>& labels) {
  return sha256_of(pixels + digest_of(std::as_bytes(std::span(labels))));
}

}  // namespace dptrain
