#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "device/device.h"

namespace dptrain {

/// Owns a block of a device's memory and frees it in the destructor. The device must outlive it.
class Buffer {
 public:
  Buffer(Device& device, int64_t bytes, MemoryPurpose purpose)
      : device_(device), purpose_(purpose), bytes_(bytes), block_(device.allocator().allocate(bytes, purpose)) {}
  /// Views a lender's memory as memory of another device that can read and write it.
  Buffer(Device& device, std::shared_ptr<const Buffer> lender)
      : device_(device),
        purpose_(lender->purpose_),
        bytes_(lender->bytes_),
        block_(lender->block_),
        owns_(false),
        lender_(std::move(lender)) {}
  /// Refers to the same memory without keeping it alive.
  struct Borrowed {
    const Buffer& from;
  };
  explicit Buffer(const Borrowed& borrowed)
      : device_(borrowed.from.device_),
        purpose_(borrowed.from.purpose_),
        bytes_(borrowed.from.bytes_),
        block_(borrowed.from.block_),
        owns_(false) {}
  ~Buffer() {
    if (owns_) device_.allocator().free(block_, purpose_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Device& device() const { return device_; }
  MemoryPurpose purpose() const { return purpose_; }
  void* data() const { return block_.memory; }
  /// The bytes requested. The block may be larger.
  int64_t bytes() const { return bytes_; }

 private:
  Device& device_;
  MemoryPurpose purpose_;
  int64_t bytes_;
  CachingAllocator::Block block_;
  bool owns_ = true;
  std::shared_ptr<const Buffer> lender_;  ///< kept alive if it owns the memory
};

}  // namespace dptrain
