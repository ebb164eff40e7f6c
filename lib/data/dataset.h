#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace dptrain {

/// Which part of a data set.
enum class DatasetSplit { train, test };

/// A data set as it lies in memory, for who keeps a copy of it on a GPU.
struct ImageBytes {
  std::span<const uint8_t> pixels;  ///< [samples, C, H, W]
  std::span<const int32_t> labels;  ///< [samples]
  std::span<const float> table;     ///< [C, 256]: the normalized values of all bytes, by channel
};

/// Labelled images that are kept in memory as bytes. Immutable, shared by all devices of a process.
class ImageDataset {
 public:
  virtual ~ImageDataset() = default;

  virtual int64_t samples() const = 0;
  /// [C, H, W]
  virtual Shape image_shape() const = 0;
  virtual int64_t classes() const = 0;
  /// Writes image `index` as C*H*W floats, normalized as the configuration says (by default pixels / 255).
  virtual void image(int64_t index, std::span<float> out) const = 0;
  /// 0 to classes() - 1.
  virtual int32_t label(int64_t index) const = 0;
  /// The whole data set; valid as long as it lives.
  virtual ImageBytes bytes() const = 0;
};

/// The two parts of one data set.
struct Datasets {
  std::shared_ptr<const ImageDataset> train;
  std::shared_ptr<const ImageDataset> test;
};

}  // namespace dptrain
