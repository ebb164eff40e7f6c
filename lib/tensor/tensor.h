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

/// A buffer of a device with a shape, an element type and a layout. Copies and views share the memory.
class Tensor {
 public:
  /// An undefined tensor: `defined()` is false.
  Tensor() = default;
  /// Makes a tensor whose content is undefined. Throws an error with exit code 71 if the device is out of memory.
  static Tensor empty(Device& device, const Shape& shape, const TensorOptions& options = {});
  static Tensor zeros(Device& device, const Shape& shape, const TensorOptions& options = {});
  /// Makes a plain f32 tensor with these values.
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
  /// The first element, as untyped bytes.
  std::byte* raw() const { return static_cast<std::byte*>(storage_->data()) + offset_bytes_; }

  /// Whether no other tensor shares the memory, so that it may be changed in place.
  bool is_unique() const { return holders() == 1; }
  /// How many tensors share the memory, this one included.
  int64_t holders() const { return storage_.use_count(); }
  bool shares_memory_with(const Tensor& other) const { return storage_ == other.storage_; }

  /// Views the memory as memory of another device that can read and write it: one core of the tensor's CPU worker, or
  /// the whole worker.
  Tensor seen_from(Device& device) const;
  /// Views the memory without keeping it alive. For recorded work, which goes on using memory that was freed.
  Tensor borrowed() const;
  /// Views the memory with another shape, as a plain tensor. For plain tensors, and for nhwc tensors of 1x1 images,
  /// whose elements are in the same order.
  Tensor reshaped(const Shape& shape) const;
  /// Views samples [begin, end) of dimension 0, in any layout. For weights in blocks, `begin` must be the first of a
  /// block.
  Tensor samples(int64_t begin, int64_t end) const;
  /// Views `shape` elements of a flat plain tensor, from element `offset_elements` on, in `layout`. Parameters that
  /// share one buffer are such views.
  Tensor window(int64_t offset_elements, const Shape& shape, Layout layout) const;

  /// Views the memory as plain u8 [bytes()]. For plain tensors only.
  Tensor as_bytes() const;
  /// Views `shape` elements of another type in a plain u8 tensor, from byte `offset_bytes` on. Lets different values
  /// share one block.
  Tensor part(int64_t offset_bytes, DType dtype, const Shape& shape) const;

  void fill_zero() const;
  /// Copies all bytes from a tensor of the same type, shape and layout, on this device or another CPU device.
  void copy_from(const Tensor& other) const;
  /// The logical values in plain order, for tests, checkpoints and messages. For f32 in plain layout.
  std::vector<float> values() const;
  /// A description: "f32 [64, 1, 28, 28] nhwc on cpu:0".
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
