#pragma once

#include <algorithm>
#include <map>

#include "data/dataset.h"
#include "ops/decode_images.h"
#include "tensor/tensor.h"

namespace dptrain {

/// A data set on a device that decodes its own images. The whole data set is copied there, as bytes, if it takes no
/// more than `most_bytes`; otherwise the bytes of each batch must be sent with it.
class ImagesOnDevice {
 public:
  ImagesOnDevice(Device& device, const ImageDataset& dataset, int64_t most_bytes);

  bool resident() const { return pixels_.defined(); }

  // In both functions, `options` comes without sample_ids; these are `ids` (i64 [N], on the device).
  struct Batch {
    Tensor images;  ///< [N, C, H, W]
    Tensor labels;  ///< i32 [N]
  };
  /// A batch of a resident data set.
  Batch batch(const Tensor& ids, ops::DecodeOptions options) const;
  /// The images [N, C, H, W] whose bytes are `pixels` (u8 [N, C, H, W]).
  Tensor decoded(const Tensor& pixels, const Tensor& ids, ops::DecodeOptions options) const;

 private:
  Tensor table_;
  Tensor pixels_;
  Tensor labels_;
};

/// The data sets that a device has been asked for. A data set is copied whole if it takes at most half of the device's
/// free memory. Attached to the device. Data sets must outlive their last batch.
class DeviceDatasets {
 public:
  explicit DeviceDatasets(Device& device) : device_(device) {}
  ImagesOnDevice& of(const ImageDataset& dataset) {
    const auto kept = kept_.find(&dataset);
    if (kept != kept_.end()) return kept->second;
    const int64_t free = std::min(device_.free_bytes(), device_.allocator().room_bytes());
    return kept_.try_emplace(&dataset, device_, dataset, free / 2).first->second;
  }

 private:
  Device& device_;
  std::map<const ImageDataset*, ImagesOnDevice> kept_;
};

}  // namespace dptrain
