#pragma once

#include <map>

#include "data/dataset.h"
#include "ops/decode_images.h"
#include "tensor/tensor.h"

namespace dptrain {

/// The batches of a data set on a device that decodes its own images. The data set is copied there whole, as bytes,
/// where it takes no more than `most_bytes`; else each batch's bytes are.
class ImagesOnDevice {
 public:
  ImagesOnDevice(Device& device, const ImageDataset& dataset, int64_t most_bytes);

  struct Batch {
    Tensor images;  ///< [N, C, H, W]
    Tensor labels;  ///< i32 [N]
  };
  /// The samples whose numbers `ids` (i64 [N]) holds on the device, and `numbers` on the host.
  /// `options` without sample_ids, which are `ids`.
  Batch batch(const Tensor& ids, std::span<const int64_t> numbers, ops::DecodeOptions options) const;

  bool resident() const { return pixels_.defined(); }

 private:
  Batch staged(std::span<const int64_t> numbers, const ops::DecodeOptions& options) const;

  Device& device_;
  const ImageDataset& dataset_;
  Tensor table_;
  Tensor pixels_;
  Tensor labels_;
};

/// What a device keeps of the data sets that it has been asked for, those whole that take at most half of its free
/// memory; attached to it. Data sets outlive their last batch.
class DeviceDatasets {
 public:
  explicit DeviceDatasets(Device& device) : device_(device) {}
  ImagesOnDevice& of(const ImageDataset& dataset) {
    const auto kept = kept_.find(&dataset);
    if (kept != kept_.end()) return kept->second;
    return kept_.try_emplace(&dataset, device_, dataset, device_.free_bytes() / 2).first->second;
  }

 private:
  Device& device_;
  std::map<const ImageDataset*, ImagesOnDevice> kept_;
};

}  // namespace dptrain
