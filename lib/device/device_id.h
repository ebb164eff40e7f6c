#pragma once

#include <compare>
#include <string>

namespace dptrain {

/// The kind of a device: `cpu` is a CPU worker with its share of the cores, `cuda` a GPU. A device of either kind may
/// also stand for one that is missing and compute nothing (meta_device.h).
enum class DeviceKind { cpu, cuda };

/// A device's name as users write it: "cpu:0", "cuda:1".
struct DeviceId {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  std::string name() const;
  auto operator<=>(const DeviceId&) const = default;
};

}  // namespace dptrain
