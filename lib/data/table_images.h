#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/normalization.h"

namespace dptrain {

/// Images that are decoded through a table when they are asked for; bytes take a quarter of the memory of floats.
/// Derived classes say where the bytes are.
class TableImages : public ImageDataset {
 public:
  Shape image_shape() const override { return image_shape_; }
  int64_t classes() const override { return classes_; }
  std::span<const float> table() const override { return table_; }
  void image(int64_t index, std::span<float> out) const override;

 protected:
  TableImages(const Shape& image_shape, int64_t classes, const Normalization& normalization);

  /// Throws for sample numbers that the data set doesn't have, and for pixels that aren't whole images.
  void check_range(int64_t first, std::span<const uint8_t> pixels) const;

 private:
  Shape image_shape_;
  int64_t classes_;
  std::vector<float> table_;
};

}  // namespace dptrain
