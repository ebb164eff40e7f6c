#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/buffer.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"
#include "tensor/shape.h"

namespace dptrain {

struct TensorOptions {
  DType dtype = DType::f32;
  Layout layout = Layout::plain;
  MemoryPurpose purpose = MemoryPurpose::activations;
};

/// A buffer of a device with a shape, an element type and a layout. Copying one shares the memory; so do views.
class Tensor {
 public:
  /// Nothing: `defined()` is false.
  Tensor() = default;
  /// Memory with whatever it holds. Throws 71 where the device has none left.
  static Tensor empty(Device& device, const Shape& shape, const TensorOptions& options = {});
  static Tensor zeros(Device& device, const Shape& shape, const TensorOptions& options = {});
  /// A plain f32 tensor with these values.
  static Tensor from(Device& device, const Shape& shape, std::span<const float> values,
                     MemoryPurpose purpose = MemoryPurpose::activations);

  bool defined() const { return storage_ != nullptr; }
  Device& device() const { return storage_->device(); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Layout layout() const { return layout_; }
  /// Logical elements; `storage_elements` counts the padding of blocked layouts too.
  int64_t elements() const { return shape_.elements(); }
  int64_t storage_elements() const { return dptrain::storage_elements(shape_, layout_); }
  int64_t bytes() const { return storage_elements() * dtype_bytes(dtype_); }

  /// The first element. T must be the tensor's own type.
  template <class T>
  T* data() const {
    check_dtype(dtype_of<T>());
    return reinterpret_cast<T*>(raw());
  }
  /// The first element of whatever type it is.
  std::byte* raw() const { return static_cast<std::byte*>(storage_->data()) + offset_bytes_; }

  /// Whether no other tensor shares the memory, so that changing it in place surprises nobody.
  bool is_unique() const { return holders() == 1; }
  /// Tensors that share the memory, this one included.
  int64_t holders() const { return storage_.use_count(); }
  bool shares_memory_with(const Tensor& other) const { return storage_ == other.storage_; }

  /// The same memory as another device that reads and writes it sees it: one core of its CPU worker, or the worker.
  Tensor seen_from(Device& device) const;
  /// The same memory, which may be given back meanwhile: that of recorded work, which goes on using it.
  Tensor borrowed() const;
  /// The same memory, plain, under another shape; of plain tensors, and of nhwc ones of 1x1, which lie alike.
  Tensor reshaped(const Shape& shape) const;
  /// Samples [begin, end) of dimension 0, in any layout; of weights in blocks `begin` is a block's first.
  Tensor samples(int64_t begin, int64_t end) const;
  /// `shape` elements of a flat plain tensor from element `offset` on, in `layout`: how parameters lie in one buffer.
  Tensor window(int64_t offset_elements, const Shape& shape, Layout layout) const;

  /// The same memory as plain u8 [bytes()]; plain tensors only.
  Tensor as_bytes() const;
  /// `shape` elements of another type from byte `offset` on of a plain u8 tensor: how unlike values lie in one block.
  Tensor part(int64_t offset_bytes, DType dtype, const Shape& shape) const;

  void fill_zero() const;
  /// Copies all bytes from a tensor of the same type, shape and layout, on this device or another CPU device.
  void copy_from(const Tensor& other) const;
  /// The logical values in plain order. For tests, checkpoints and messages; f32, plain layout.
  std::vector<float> values() const;
  /// "f32 [64, 1, 28, 28] nhwc on cpu:0"
  std::string text() const;

 private:
  void check_dtype(DType expected) const;

  std::shared_ptr<Buffer> storage_;
  int64_t offset_bytes_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
  Layout layout_ = Layout::plain;
};

}  // namespace dptrain
