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

/// What a kind of device can do, according to its vendor or to measurements on this machine.
struct DeviceFigures {
  std::string name;  ///< "h200", as in 16xh200
  DeviceKind kind = DeviceKind::cpu;
  // Multiplications plus additions per second in dense products:
  double fp32_flops = 0;
  double tf32_flops = 0;
  double half_flops = 0;    ///< in bf16 and fp16
  double memory_bytes = 0;  ///< the device's memory; 0: not known
  double memory_bytes_per_s = 0;
  /// The link between two such devices of one process, in either direction.
  LinkSpeed inside;
  /// The rate at which such a device reads and writes host memory; 0: its own memory is host memory.
  double staging_bytes_per_s = 0;
  double operator_s = 0;  ///< the least time of any operator
  std::string source;     ///< where these figures come from

  double flops(Precision precision) const;
};

/// The devices that a plan can be made for.
const std::vector<DeviceFigures>& known_devices();
/// Finds a device by name; null if it isn't known.
const DeviceFigures* find_device(std::string_view name);
/// Finds a GPU by the name that it reports, "NVIDIA H200"; null if it isn't known.
const DeviceFigures* find_gpu(std::string_view product);

/// A count and a device of the table: "16xh200".
struct CountedDevices {
  int count = 0;
  const DeviceFigures* figures = nullptr;
};
/// Nothing if `text` doesn't have this form. Throws 78 for an unknown name, listing the known devices, and for a count
/// outside 1 to 4096. `where` begins the message.
std::optional<CountedDevices> parse_counted_devices(std::string_view text, std::string_view where);

/// What a run has shown about its devices: how far operators are from the figures, and what a step takes besides them.
struct Calibration {
  double compute_factor = 1;  ///< factor for the estimated seconds of operators
  double host_s = 0;          ///< seconds of a step outside of its operators
  /// Set if the run had several processes.
  std::optional<ExchangeFigures> exchange = {};
};

/// The seconds of an operator: the time for its products or for the memory that it reads and writes, whichever is
/// longer.
double operator_seconds(const OperatorCost& cost, const DeviceFigures& device, Precision precision);

}  // namespace dptrain::plan
