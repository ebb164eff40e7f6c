#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/link_spec.h"
#include "device/device_id.h"
#include "device/operator_log.h"
#include "plan/links_file.h"
#include "tensor/precision.h"

namespace dptrain::plan {

/// What a kind of device can do, as its vendor says or as this machine was measured to.
struct DeviceFigures {
  std::string name;  ///< "h200", as in 16xh200
  DeviceKind kind = DeviceKind::cpu;
  // Multiplications and additions a second of dense products:
  double fp32_flops = 0;
  double tf32_flops = 0;
  double half_flops = 0;    ///< in bf16 and fp16
  double memory_bytes = 0;  ///< that it has; 0: not known
  double memory_bytes_per_s = 0;
  /// Between such devices of one process, either way.
  LinkSpeed inside;
  /// That reading and writing host memory takes; 0: it is host memory.
  double staging_bytes_per_s = 0;
  double operator_s = 0;  ///< no operator takes less
  std::string source;     ///< of these figures

  double flops(Precision precision) const;
};

/// The table of devices that a plan can be made for.
const std::vector<DeviceFigures>& known_devices();
/// By name; null where it isn't known.
const DeviceFigures* find_device(std::string_view name);
/// That of a GPU which calls itself so, "NVIDIA H200".
const DeviceFigures* find_gpu(std::string_view product);

/// "16xh200": so many of a device of the table.
struct CountedDevices {
  int count = 0;
  const DeviceFigures* figures = nullptr;
};
/// Nothing where `text` has no such form. Throws 78, with the devices of the table, for a name that isn't there, and
/// for a count that isn't 1 to 4096. `where` begins the message.
std::optional<CountedDevices> parse_counted_devices(std::string_view text, std::string_view where);

/// What a run has shown of the devices: shares of the figures that operators reach, and what a step takes beside them.
struct Calibration {
  double compute_factor = 1;  ///< that operators' seconds are multiplied by
  double host_s = 0;          ///< of a step, which no operator takes
  /// Where the run was of several processes.
  std::optional<ExchangeFigures> exchange = {};
};

/// What an operator takes: as long as its products or the memory that it goes over, whichever is slower.
double operator_seconds(const OperatorCost& cost, const DeviceFigures& device, Precision precision);

}  // namespace dptrain::plan
