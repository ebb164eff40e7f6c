#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config_reader.h"
#include "device/device_id.h"

namespace dptrain::train {

/// The job in which a process reads its configuration; by default the process is alone.
struct ConfigJob {
  int processes = 1;
  int process = 0;
  /// The number of processes that are only servers of a key-value store. They are the last processes of the job, and
  /// the scheduler comes right before them.
  int store_servers = 0;
  std::vector<std::string> hosts = {};  ///< by process of the job
  std::string host = {};                ///< of this process
  /// For a plan: the devices that stand for this process's devices. They need not exist, and replace the key `devices`.
  std::optional<std::vector<DeviceId>> planned_devices = {};
  /// For a plan of the model alone: listed devices need not exist.
  bool needs_no_devices = false;
  /// Tells all processes which devices this process lists, and returns the devices of each process. All processes call
  /// it, once.
  std::function<std::vector<std::vector<DeviceId>>(const std::vector<DeviceId>& own)> exchange_devices = {};

  /// The number of processes that train; these are the first ones.
  int workers() const { return store_servers > 0 ? processes - store_servers - 1 : processes; }
  /// Whether this process trains. Process 0 always reads its devices, even if no process would be left to train.
  bool trains() const { return process < std::max(1, workers()); }
  /// The number of processes that train on this process's host and so share its cores, this one included.
  int workers_of_host() const;
  /// This process's number among the processes that train on its host, from 0.
  int place_on_host() const;
};

/// The devices that a process trains on. A process that doesn't train gets the devices of the first process, wherever
/// they are, because the meaning and the defaults of other keys depend on them.
struct DeviceSettings {
  std::vector<DeviceId> devices;
  std::vector<int> threads;               ///< CPU threads by device
  std::vector<int> devices_of_processes;  ///< the number of devices of each process that trains

  int world_devices() const;
};

/// The number of processes that are only servers, according to `strategy` in `root`, a configuration. 0 if `strategy`
/// has a mistake, which reading it will report.
int store_servers_of(const ConfigNode& root);

/// Reads the keys `devices`, `hosts` (lists by host name, which replace `devices` on that host) and `threads`.
DeviceSettings read_device_settings(ConfigReader& config, const ConfigJob& job);

}  // namespace dptrain::train
