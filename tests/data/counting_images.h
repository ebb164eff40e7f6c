#pragma once

#include <atomic>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data/dataset.h"

namespace dptrain::testing {

/// Another data set's images, counting how often each is asked for. Asking for image `poisoned` throws.
class CountingImages final : public ImageDataset {
 public:
  explicit CountingImages(std::shared_ptr<const ImageDataset> inner, int64_t poisoned = -1)
      : inner_(std::move(inner)), poisoned_(poisoned), counts_(static_cast<size_t>(inner_->samples())) {}

  int64_t samples() const override { return inner_->samples(); }
  Shape image_shape() const override { return inner_->image_shape(); }
  int64_t classes() const override { return inner_->classes(); }
  int32_t label(int64_t index) const override { return inner_->label(index); }
  ImageBytes bytes() const override { return inner_->bytes(); }
  void image(int64_t index, std::span<float> out) const override {
    if (index == poisoned_) throw std::runtime_error("poisoned image");
    ++counts_[static_cast<size_t>(index)];
    inner_->image(index, out);
  }

  int count(int64_t index) const { return counts_[static_cast<size_t>(index)]; }
  /// How often all images together were asked for.
  int64_t total() const {
    int64_t sum = 0;
    for (const auto& count : counts_) sum += count;
    return sum;
  }

 private:
  std::shared_ptr<const ImageDataset> inner_;
  int64_t poisoned_;
  mutable std::vector<std::atomic<int>> counts_;
};

}  // namespace dptrain::testing
