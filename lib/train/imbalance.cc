#include "train/imbalance.h"

#include <algorithm>

namespace dptrain::train {
namespace {

/// Batches aren't always shared out into equal parts, by a sample.
bool have_as_many_samples(const std::vector<DeviceMetrics>& devices) {
  const auto [least, most] = std::ranges::minmax(devices, {}, &DeviceMetrics::samples);
  return static_cast<double>(most.samples - least.samples) <= 0.1 * static_cast<double>(most.samples);
}

}  // namespace

Imbalance imbalance_of(const EpochMetrics& epoch) {
  if (epoch.devices.empty()) return {};
  double sum = 0;
  for (const DeviceMetrics& device : epoch.devices) sum += device.busy;
  const double mean = sum / static_cast<double>(epoch.devices.size());
  const auto [least, most] = std::ranges::minmax(epoch.devices, {}, &DeviceMetrics::busy);
  const double seconds = epoch.train.seconds;
  return {.compute_s = have_as_many_samples(epoch.devices) ? seconds * (mean - least.busy) : 0,
          .wait_s = std::min(seconds * (most.busy - mean), epoch.time.exposed_comm_s)};
}

}  // namespace dptrain::train
