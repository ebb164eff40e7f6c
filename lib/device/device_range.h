#pragma once

#include "device/device.h"

namespace dptrain {

/// A range in a profiler's timeline, for as long as the object lives.
class DeviceRange {
 public:
  DeviceRange(Device& device, const char* name) : device_(device) { device_.begin_range(name); }
  ~DeviceRange() { device_.end_range(); }
  DeviceRange(const DeviceRange&) = delete;
  DeviceRange& operator=(const DeviceRange&) = delete;

 private:
  Device& device_;
};

}  // namespace dptrain
