#include "tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace dptrain {

Tensor Tensor::empty(Device& device, const Shape& shape, const TensorOptions& options) {
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.dtype_ = options.dtype;
  tensor.layout_ = options.layout;
  tensor.storage_ = std::make_shared<Buffer>(device, tensor.bytes(), options.purpose);
  return tensor;
}

Tensor Tensor::zeros(Device& device, const Shape& shape, const TensorOptions& options) {
  Tensor tensor = empty(device, shape, options);
  tensor.fill_zero();
  return tensor;
}

Tensor Tensor::from(Device& device, const Shape& shape, std::span<const float> values, MemoryPurpose purpose) {
  DPTRAIN_CHECK(static_cast<int64_t>(values.size()) == shape.elements(), "{} values for {}", values.size(),
                shape.text());
  Tensor tensor = empty(device, shape, {.purpose = purpose});
  device.upload(tensor.raw(), values.data(), tensor.bytes());
  return tensor;
}

Tensor Tensor::seen_from(Device& device) const {
  Tensor view = *this;
  view.storage_ = std::make_shared<Buffer>(device, storage_);
  return view;
}

Tensor Tensor::borrowed() const {
  Tensor view = *this;
  view.storage_ = std::make_shared<Buffer>(Buffer::Borrowed{*storage_});
  return view;
}

Tensor Tensor::reshaped(const Shape& shape) const {
  const bool is_plain = layout_ == Layout::plain || (layout_ == Layout::nhwc && shape_[2] == 1 && shape_[3] == 1);
  DPTRAIN_CHECK(is_plain && shape.elements() == elements(), "{} can't be viewed as {}", text(), shape.text());
  Tensor view = *this;
  view.shape_ = shape;
  view.layout_ = Layout::plain;
  return view;
}

Tensor Tensor::samples(int64_t begin, int64_t end) const {
  const bool weights = layout_ == Layout::oihw8i8o || layout_ == Layout::oihw16i16o;
  DPTRAIN_CHECK(0 <= begin && begin <= end && end <= shape_[0] && (!weights || begin % layout_block(layout_) == 0),
                "samples {} to {} of {}", begin, end, text());
  Tensor view = *this;
  view.shape_ = shape_.with_first(end - begin);
  view.offset_bytes_ += dptrain::storage_elements(shape_.with_first(begin), layout_) * dtype_bytes(dtype_);
  return view;
}

Tensor Tensor::window(int64_t offset_elements, const Shape& shape, Layout layout) const {
  Tensor view = *this;
  view.shape_ = shape;
  view.layout_ = layout;
  view.offset_bytes_ += offset_elements * dtype_bytes(dtype_);
  DPTRAIN_CHECK(layout_ == Layout::plain && offset_elements >= 0 &&
                    offset_elements + view.storage_elements() <= storage_elements(),
                "a window of {} at {} in {}", shape.text(), offset_elements, text());
  return view;
}

Tensor Tensor::as_bytes() const {
  DPTRAIN_CHECK(layout_ == Layout::plain, "bytes of {}", text());
  Tensor view = *this;
  view.dtype_ = DType::u8;
  view.shape_ = {bytes()};
  return view;
}

Tensor Tensor::part(int64_t offset_bytes, DType dtype, const Shape& shape) const {
  Tensor view = *this;
  view.dtype_ = dtype;
  view.shape_ = shape;
  view.offset_bytes_ += offset_bytes;
  DPTRAIN_CHECK(dtype_ == DType::u8 && layout_ == Layout::plain && offset_bytes >= 0 &&
                    offset_bytes % dtype_bytes(dtype) == 0 && offset_bytes + view.bytes() <= bytes(),
                "{} {} at byte {} of {}", dtype_name(dtype), shape.text(), offset_bytes, text());
  return view;
}

void Tensor::fill_zero() const { device().fill_zero(raw(), bytes()); }

void Tensor::copy_from(const Tensor& other) const {
  DPTRAIN_CHECK(other.shape_ == shape_ && other.dtype_ == dtype_ && other.layout_ == layout_, "copy of {} to {}",
                other.text(), text());
  device().copy(raw(), other.raw(), bytes());
}

std::vector<float> Tensor::values() const {
  DPTRAIN_CHECK(layout_ == Layout::plain, "values of {}", text());
  std::vector<float> result(static_cast<size_t>(elements()));
  device().download(result.data(), data<float>(), bytes());
  return result;
}

std::string Tensor::text() const {
  return fmt::format("{} {} {} on {}", dtype_name(dtype_), shape_.text(), layout_name(layout_),
                     defined() ? device().name() : "no device");
}

void Tensor::check_dtype(DType expected) const {
  DPTRAIN_CHECK(expected == dtype_, "{} read as {}", text(), dtype_name(expected));
}

}  // namespace dptrain
