#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Identifies a primitive: operator, shapes, options. oneDNN builds the number of threads into a primitive, but each
/// device has a fixed one.
using PrimitiveKey = std::vector<int64_t>;

/// oneDNN for one device: an engine and the primitives made so far. Only the device's rank thread uses it. Scratch
/// memory comes from the device's allocator, because primitives that hold their own corrupt each other across threads.
class OneDnn {
 public:
  explicit OneDnn(Device& device);

  static OneDnn& of(Device& device) { return device.attached<OneDnn>(); }

  const dnnl::engine& engine() const { return engine_; }

  /// Returns the cached value for `key`, or makes it with `make` at first use. T is a struct of primitives and
  /// descriptors.
  template <class T, class Make>
  T& cached(const PrimitiveKey& key, const Make& make) {
    auto& slot = cache_[key];
    if (!slot) slot = std::make_shared<T>(make());
    return *static_cast<T*>(slot.get());
  }

  dnnl::memory memory(const dnnl::memory::desc& desc, const Tensor& tensor) const {
    return dnnl::memory(desc, engine_, tensor.raw());
  }

  /// Runs the primitive with its scratch memory and waits for it. An empty `scratchpad` means that the arguments
  /// contain it or that the primitive needs none.
  void execute(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
               std::unordered_map<int, dnnl::memory> arguments);

  /// Returns an uninitialized tensor for `desc`, whose format oneDNN has chosen: workspace that only primitives read.
  Tensor opaque(const dnnl::memory::desc& desc, MemoryPurpose purpose = MemoryPurpose::workspace) const;

  /// Copies `from` to `to`, which may have another format.
  void reorder(const dnnl::memory& from, const dnnl::memory& to);

 private:
  Device& device_;
  dnnl::engine engine_;
  std::map<PrimitiveKey, std::shared_ptr<void>> cache_;
};

/// Returns the descriptor of a tensor in our layouts.
dnnl::memory::desc onednn_desc(const Shape& shape, Layout layout);
inline dnnl::memory::desc onednn_desc(const Tensor& tensor) { return onednn_desc(tensor.shape(), tensor.layout()); }
/// Returns a descriptor whose format the primitive chooses.
dnnl::memory::desc onednn_any(const Shape& shape);

}  // namespace dptrain::ops
