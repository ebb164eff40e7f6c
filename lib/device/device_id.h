#pragma once

#include <compare>
#include <string>

namespace dptrain {

/// `cpu` is a logical worker with its share of the cores, `cuda` a GPU, `meta` computes nothing and counts.
enum class DeviceKind { cpu, cuda, meta };

/// What a user calls a device: "cpu:0", "cuda:1".
struct DeviceId {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  std::string name() const;
  auto operator<=>(const DeviceId&) const = default;
};

}  // namespace dptrain
