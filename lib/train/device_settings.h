#pragma once

#include <algorithm>
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
  /// Of a key-value store: processes that are servers alone, the last ones; the scheduler stands before them.
  int store_servers = 0;
  std::vector<std::string> hosts = {};  ///< of the processes of a job, by number
  std::string host = {};                ///< of this process
  /// Of a plan: what stands for the devices of this process, which needn't be there, whatever `devices` says.
  std::optional<std::vector<DeviceId>> planned_devices = {};
  /// Of a plan of the model alone: devices that are listed needn't be there.
  bool needs_no_devices = false;
  /// Tells all processes which devices this one lists; returns those of each. Called once, by all alike.
  std::function<std::vector<std::vector<DeviceId>>(const std::vector<DeviceId>& own)> exchange_devices = {};

  /// How many train: the first ones.
  int workers() const { return store_servers > 0 ? processes - store_servers - 1 : processes; }
  /// Whether this one does. The first one reads its devices in any case, also where none is left to train.
  bool trains() const { return process < std::max(1, workers()); }
  /// Those of them that share this process's cores, this one included.
  int workers_of_host() const;
  /// The number of this process among them, from 0.
  int place_on_host() const;
};

/// What a process trains on. One that doesn't train has what the first process has, wherever that is: what other keys
/// mean, and are by default, follows from the devices.
struct DeviceSettings {
  std::vector<DeviceId> devices;
  std::vector<int> threads;               ///< CPU threads by device
  std::vector<int> devices_of_processes;  ///< how many each process that trains has

  int world_devices() const;
};

/// How many processes of a job are servers alone, as `root`, a configuration, says under `strategy`; 0 where it doesn't
/// say so as it should, which reading it then tells.
int store_servers_of(const ConfigNode& root);

/// Reads the keys `devices`, `hosts` (lists by host name, which take the place of `devices` there) and `threads`.
DeviceSettings read_device_settings(ConfigReader& config, const ConfigJob& job);

}  // namespace dptrain::train
