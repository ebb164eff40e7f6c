#pragma once

#include <map>

#include "data/dataset.h"
#include "tensor/tensor.h"

namespace dptrain {

/// The batches of a data set on a GPU, which decodes its own images. The data set is copied there whole, as bytes,
/// where it takes at most half of the memory that is free; else each batch's bytes are.
class ImagesOnDevice {
 public:
  ImagesOnDevice(Device& device, const ImageDataset& dataset);

  struct Batch {
    Tensor images;  ///< [N, C, H, W], of the type asked for
    Tensor labels;  ///< i32 [N]
  };
  /// The samples whose numbers `ids` (i64 [N]) holds on the device, and `numbers` on the host.
  Batch batch(const Tensor& ids, std::span<const int64_t> numbers, DType dtype) const;

  bool resident() const { return pixels_.defined(); }

 private:
  Batch staged(std::span<const int64_t> numbers, DType dtype) const;

  Device& device_;
  const ImageDataset& dataset_;
  Tensor table_;
  Tensor pixels_;
  Tensor labels_;
};

/// What a device keeps of the data sets that it has been asked for; attached to it. Data sets outlive their last batch.
class DeviceDatasets {
 public:
  explicit DeviceDatasets(Device& device) : device_(device) {}
  ImagesOnDevice& of(const ImageDataset& dataset) {
    return kept_.try_emplace(&dataset, device_, dataset).first->second;
  }

 private:
  Device& device_;
  std::map<const ImageDataset*, ImagesOnDevice> kept_;
};

}  // namespace dptrain
