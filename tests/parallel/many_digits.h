#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "parallel/digits.h"

namespace dptrain::parallel {

/// Real digits, repeated to 157 MB. That is more than the workspaces of LeNet's convolutions and products take on any
/// GPU, which are counted as memory of the same purpose.
class ManyDigits final : public ImageDataset {
 public:
  int64_t samples() const override { return 200'000; }
  int64_t held_bytes() const override { return few_->held_bytes(); }
  int64_t read_bytes() const override { return few_->read_bytes(); }
  Shape image_shape() const override { return few_->image_shape(); }
  int64_t classes() const override { return few_->classes(); }
  void image(int64_t index, std::span<float> out) const override { few_->image(index % few_->samples(), out); }
  int32_t label(int64_t index) const override { return few_->label(index % few_->samples()); }
  void pixels(int64_t first, std::span<uint8_t> out) const override {
    const auto each = static_cast<size_t>(image_shape().elements());
    for (; !out.empty(); out = out.subspan(each), ++first) few_->pixels(first % few_->samples(), out.first(each));
  }
  void read_ahead(int64_t, int64_t) const override {}
  std::span<const float> table() const override { return few_->table(); }
  std::string content_digest() const override { return few_->content_digest(); }

 private:
  std::shared_ptr<const ImageDataset> few_ = digits(2000, 10).train;
};

inline ImageDatasets many_digits() { return {.train = std::make_shared<ManyDigits>(), .test = digits(1, 10).test}; }

}  // namespace dptrain::parallel
