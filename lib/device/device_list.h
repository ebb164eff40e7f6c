#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/device_id.h"

namespace dptrain {

/// Parses a device list: commas and ranges ("cuda:0-3,cpu:0"); `auto` (all GPUs, else cpu:0); `auto:N` (N GPUs; with
/// fewer, those again in turn; with none, N CPU workers); `cuda:local`, the one with the number `local`. A device may
/// stand twice, and need not be there. `where` begins every message. Throws 78 for what can't be read.
std::vector<DeviceId> parse_device_list(std::string_view text, std::string_view where, int local = 0);

/// The same of devices of another machine, as `device_names` has them; there may be none.
std::vector<DeviceId> devices_elsewhere(std::string_view names);

/// Throws 71 unless every device of the list is on this machine: names what is there, and `--devices cpu:0-1` as a way
/// on.
void require_devices(const std::vector<DeviceId>& devices, std::string_view where);

/// "cpu:0, cpu:1"
std::string device_names(const std::vector<DeviceId>& devices);

/// Whether one of them is of this kind.
bool lists(const std::vector<DeviceId>& devices, DeviceKind kind);

/// The most logical CPU workers: cpu:0 to cpu:63.
inline constexpr int kMaxCpuWorkers = 64;

}  // namespace dptrain
