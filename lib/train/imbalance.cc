#include "train/imbalance.h"

#include <algorithm>

namespace dptrain::train {
namespace {

using Devices = std::vector<const DeviceMetrics*>;

/// Whether devices have about the same number of samples: even splits may still differ by a sample.
bool have_as_many_samples(const Devices& devices) {
  const auto [least, most] = std::ranges::minmax(devices, {}, &DeviceMetrics::samples);
  return static_cast<double>(most->samples - least->samples) <= 0.1 * static_cast<double>(most->samples);
}

/// The devices with the same work as device `first`: all of them, or in a pipeline the ones with the same stages in
/// each replica.
Devices alike(const EpochMetrics& epoch, size_t first, size_t of_pipeline) {
  Devices devices;
  for (size_t rank = first; rank < epoch.devices.size(); rank += of_pipeline) devices.push_back(&epoch.devices[rank]);
  return devices;
}

}  // namespace

Imbalance imbalance_of(const EpochMetrics& epoch) {
  if (epoch.devices.empty()) return {};
  const auto count = static_cast<double>(epoch.devices.size());
  double compute_s = 0, delay_s = 0;
  const size_t of_pipeline = epoch.pipeline_devices();
  for (size_t first = 0; first < std::min(of_pipeline, epoch.devices.size()); ++first) {
    const Devices devices = alike(epoch, first, of_pipeline);
    const auto [least, most] = std::ranges::minmax(devices, {}, &DeviceMetrics::compute_s);
    const bool is_known = have_as_many_samples(devices);
    double own_s = 0;
    for (const DeviceMetrics* device : devices) own_s += device->compute_s - least->compute_s;
    const double delay_of_alike_s = most->compute_s - least->compute_s;
    if (is_known) compute_s += own_s / count;
    delay_s = std::max(delay_s, is_known ? delay_of_alike_s : delay_of_alike_s - own_s / count);
  }
  return {.compute_s = compute_s, .wait_s = std::max(0.0, std::min(delay_s - compute_s, epoch.time.exposed_comm_s))};
}

}  // namespace dptrain::train
