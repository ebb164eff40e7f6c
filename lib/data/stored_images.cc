#include "data/stored_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace dptrain {

StoredImages::StoredImages(StoredContent content, const Normalization& normalization)
    : TableImages(content.image_shape, content.classes, normalization), content_(std::move(content)) {
  for (const StoredRun& run : content_.runs) samples_ += run.images;
  const auto labels = static_cast<int64_t>(content_.labels.size());
  DPTRAIN_CHECK(labels == 0 || labels == samples_, "{} labels for {} images", labels, samples_);
}

int64_t StoredImages::held_bytes() const { return static_cast<int64_t>(content_.labels.size() * sizeof(int32_t)); }

int64_t StoredImages::read_bytes() const {
  int64_t bytes = static_cast<int64_t>(content_.labels.size());
  for (const StoredRun& run : content_.runs) bytes += run.file->read_bytes();
  return bytes;
}

StoredImages::Place StoredImages::place_of(int64_t index) const {
  DPTRAIN_CHECK(index >= 0 && index < samples_, "sample {} of {}", index, samples_);
  auto run = content_.runs.begin();
  for (; index >= run->images; ++run) index -= run->images;
  return {*run, index};
}

int32_t StoredImages::label(int64_t index) const {
  const Place place = place_of(index);
  if (!content_.labels.empty()) return content_.labels[static_cast<size_t>(index)];
  uint8_t label = 0;
  place.run.file->read(place.offset() - 1, std::span(&label, 1));
  DPTRAIN_CHECK(label < classes(), "the label {} of sample {}, which was checked", label, index);
  return label;
}

void StoredImages::pixels(int64_t first, std::span<uint8_t> out) const {
  check_range(first, out);
  const int64_t elements = image_shape().elements();
  while (!out.empty()) {
    const Place place = place_of(first);
    // Images without gaps between them are read at once.
    const bool is_dense = place.run.stride == elements;
    const int64_t wanted = static_cast<int64_t>(out.size()) / elements;
    const int64_t images = is_dense ? std::min(wanted, place.run.images - place.image) : 1;
    const auto bytes = static_cast<size_t>(images * elements);
    place.run.file->read(place.offset(), out.first(bytes));
    out = out.subspan(bytes);
    first += images;
  }
}

void StoredImages::read_ahead(int64_t begin, int64_t end) const {
  while (begin < end) {
    const Place place = place_of(begin);
    const int64_t images = std::min(end - begin, place.run.images - place.image);
    // The bytes between images, such as labels, are before each image.
    const int64_t from = place.offset() - (place.run.stride - image_shape().elements());
    place.run.file->read_through(from, from + images * place.run.stride, place.run.stride,
                                 [](std::span<const uint8_t>) {});
    begin += images;
  }
}

}  // namespace dptrain
