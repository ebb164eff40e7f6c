#pragma once

#include <atomic>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data/forwarded_images.h"

namespace dptrain::testing {

/// Another data set's images, with a count of how often each is asked for. Asking for image `poisoned` throws.
class CountingImages final : public ForwardedImages {
 public:
  explicit CountingImages(std::shared_ptr<const ImageDataset> inner, int64_t poisoned = -1)
      : ForwardedImages(std::move(inner)), poisoned_(poisoned), counts_(static_cast<size_t>(samples())) {}

  void image(int64_t index, std::span<float> out) const override {
    if (index == poisoned_) throw std::runtime_error("poisoned image");
    ++counts_[static_cast<size_t>(index)];
    ForwardedImages::image(index, out);
  }

  int count(int64_t index) const { return counts_[static_cast<size_t>(index)]; }
  /// The sum of the counts of all images.
  int64_t total() const {
    int64_t sum = 0;
    for (const auto& count : counts_) sum += count;
    return sum;
  }

 private:
  int64_t poisoned_;
  mutable std::vector<std::atomic<int>> counts_;
};

}  // namespace dptrain::testing
