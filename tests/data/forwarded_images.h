#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "data/dataset.h"

namespace dptrain::testing {

/// Passes calls on to another data set of images, for tests that override some of them.
class ForwardedImages : public ImageDataset {
 public:
  explicit ForwardedImages(std::shared_ptr<const ImageDataset> inner) : inner_(std::move(inner)) {}

  int64_t samples() const override { return inner_->samples(); }
  Shape image_shape() const override { return inner_->image_shape(); }
  int64_t classes() const override { return inner_->classes(); }
  int32_t label(int64_t index) const override { return inner_->label(index); }
  int64_t held_bytes() const override { return inner_->held_bytes(); }
  int64_t read_bytes() const override { return inner_->read_bytes(); }
  void read_ahead(int64_t begin, int64_t end) const override { inner_->read_ahead(begin, end); }
  void pixels(int64_t first, std::span<uint8_t> out) const override { inner_->pixels(first, out); }
  std::span<const float> table() const override { return inner_->table(); }
  std::string content_digest() const override { return inner_->content_digest(); }
  void image(int64_t index, std::span<float> out) const override { inner_->image(index, out); }

 private:
  std::shared_ptr<const ImageDataset> inner_;
};

}  // namespace dptrain::testing
