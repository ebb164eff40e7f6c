#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config_reader.h"
#include "device/device_id.h"

namespace dptrain::train {

/// The job that a process reads its configuration in: by default it is alone.
struct ConfigJob {
  int processes = 1;
  int process = 0;
  int processes_of_host = 1;  ///< this one included, which share its cores
  std::string host = {};      ///< of this process
  /// Of a plan: what stands for the devices of this process, which needn't be there, whatever `devices` says.
  std::optional<std::vector<DeviceId>> planned_devices = {};
  /// Tells all processes how many devices this one has; returns how many each has. Called once, by all alike.
  std::function<std::vector<int>(int devices)> exchange_devices = {};
};

/// What a process trains on.
struct DeviceSettings {
  std::vector<DeviceId> devices;
  std::vector<int> threads;               ///< CPU threads by device
  std::vector<int> devices_of_processes;  ///< how many each process of the job has

  int world_devices() const;
};

/// Reads the keys `devices`, `hosts` (lists by host name, which take the place of `devices` there) and `threads`.
DeviceSettings read_device_settings(ConfigReader& config, const ConfigJob& job);

}  // namespace dptrain::train
