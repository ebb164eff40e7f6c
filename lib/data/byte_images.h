#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/table_images.h"

namespace dptrain {

/// Images as bytes, with labels, before normalization.
struct LabelledBytes {
  Shape image_shape = {};  ///< [C, H, W]
  int64_t classes = 0;
  std::vector<std::string> class_names = {};  ///< a name for each class; empty if classes have only numbers
  std::vector<uint8_t> pixels = {};           ///< [samples, C, H, W]
  std::vector<int32_t> labels = {};           ///< [samples], 0 to classes - 1
};

/// A data set of images that is held in memory.
class ByteImages final : public TableImages {
 public:
  /// Returns the digest of the content, for data sets that can avoid hashing the bytes in memory.
  using Digest = std::function<std::string(const LabelledBytes&)>;

  ByteImages(LabelledBytes data, const Normalization& normalization, Digest digest = digest_of_bytes);

  int64_t samples() const override { return static_cast<int64_t>(data_.labels.size()); }
  int64_t held_bytes() const override;
  int64_t read_bytes() const override { return held_bytes(); }
  void read_ahead(int64_t, int64_t) const override {}
  std::vector<std::string> class_names() const override { return data_.class_names; }
  int32_t label(int64_t index) const override;
  void pixels(int64_t first, std::span<uint8_t> out) const override;
  std::string content_digest() const override { return digest_(data_); }

  static std::string digest_of_bytes(const LabelledBytes& data);

 private:
  LabelledBytes data_;
  Digest digest_;
};

/// SHA-256 of the pixels, as hex digits; and the digest of a content with these labels, from the digest of its pixels.
std::string digest_of_pixels(const LabelledBytes& data);
std::string content_digest_of(const std::string& pixels, const std::vector<int32_t>& labels);

}  // namespace dptrain
