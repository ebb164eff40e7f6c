#pragma once

#include <compare>
#include <string>

namespace dptrain {

/// `cpu` is a logical worker with its share of the cores, `cuda` a GPU. Either may stand for one that isn't there, and
/// compute nothing (meta_device.h).
enum class DeviceKind { cpu, cuda };

/// What a user calls a device: "cpu:0", "cuda:1".
struct DeviceId {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  std::string name() const;
  auto operator<=>(const DeviceId&) const = default;
};

}  // namespace dptrain
