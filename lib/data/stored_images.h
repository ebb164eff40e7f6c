#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/stored_file.h"
#include "data/table_images.h"

namespace dptrain {

/// Images in an uncompressed file at equal distances: the bytes of image i begin at begin + i * stride. The bytes
/// between two images, such as a label, also exist before the first image.
struct StoredRun {
  std::shared_ptr<const StoredFile> file;
  int64_t images = 0;
  int64_t begin = 0;
  int64_t stride = 0;
};

/// The parts that StoredImages is made of.
struct StoredContent {
  Shape image_shape = {};  ///< [C, H, W]
  int64_t classes = 0;
  std::vector<StoredRun> runs = {};  ///< one after the other
  /// [samples]; empty if the byte before an image is its label.
  std::vector<int32_t> labels = {};
  std::function<std::string()> digest = {};  ///< of pixels and labels
};

/// A data set in uncompressed files. It reads what is asked for, again each time, and nothing else. The operating
/// system keeps the content in memory, once for all processes of a host, as long as there is room.
class StoredImages final : public TableImages {
 public:
  StoredImages(StoredContent content, const Normalization& normalization);

  int64_t samples() const override { return samples_; }
  int64_t held_bytes() const override;
  int64_t read_bytes() const override;
  void read_ahead(int64_t begin, int64_t end) const override;
  int32_t label(int64_t index) const override;
  void pixels(int64_t first, std::span<uint8_t> out) const override;
  std::string content_digest() const override { return content_.digest(); }

 private:
  struct Place {
    const StoredRun& run;
    int64_t image;  ///< the index within the run
    int64_t offset() const { return run.begin + image * run.stride; }
  };
  Place place_of(int64_t index) const;

  StoredContent content_;
  int64_t samples_ = 0;
};

}  // namespace dptrain
