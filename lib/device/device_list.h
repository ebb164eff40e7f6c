#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/device_id.h"

namespace dptrain {

/// Parses a device list. It may contain:
///   - devices and ranges, separated by commas: "cuda:0-3,cpu:0"
///   - `auto`: all GPUs, or cpu:0 if there are none
///   - `auto:N`: N GPUs; with fewer, the list repeats them in turn; with none, N CPU workers
///   - `cuda:local`: the GPU with the number `local`
/// A device may be listed twice, and need not exist. `where` begins every message. Throws an error with exit code 78 if
/// the list can't be read.
std::vector<DeviceId> parse_device_list(std::string_view text, std::string_view where, int local = 0);

/// Parses the devices of another machine, written as by `device_names`. The list may be empty.
std::vector<DeviceId> devices_elsewhere(std::string_view names);

/// Throws an error with exit code 71 unless every device of the list is on this machine. The error names the devices
/// that exist, and suggests `--devices cpu:0-1`.
void require_devices(const std::vector<DeviceId>& devices, std::string_view where);

/// The names in a list: "cpu:0, cpu:1".
std::string device_names(const std::vector<DeviceId>& devices);

/// Whether a device of the list is of this kind.
bool lists(const std::vector<DeviceId>& devices, DeviceKind kind);

/// The most CPU workers: cpu:0 to cpu:63.
inline constexpr int kMaxCpuWorkers = 64;

}  // namespace dptrain
