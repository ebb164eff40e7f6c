#include "train/straggler.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/median.h"
#include "train/metrics.h"

namespace dptrain::train {
namespace {

constexpr double kClearlySlower = 1.5;
constexpr double kLeastShare = 0.1;
constexpr int64_t kLeastSteps = 10;

}  // namespace

std::optional<Straggler> find_straggler(const std::vector<double>& compute_s, double seconds, int64_t steps,
                                        int pipeline_devices) {
  DPTRAIN_CHECK(pipeline_devices > 0, "a pipeline has devices, not {}", pipeline_devices);
  if (steps < kLeastSteps) return std::nullopt;
  std::optional<Straggler> found;
  const auto ranks = static_cast<int>(compute_s.size());
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<double> others;
    for (int other = rank % pipeline_devices; other < ranks; other += pipeline_devices)
      if (const double of_other = compute_s[static_cast<size_t>(other)]; other != rank && of_other > 0)
        others.push_back(of_other);
    if (others.empty()) continue;
    const double own = compute_s[static_cast<size_t>(rank)], usual = median(std::move(others)), waited = own - usual;
    if (own < kClearlySlower * usual || waited < kLeastShare * seconds) continue;
    if (!found || waited > found->waited_s) found = {.rank = rank, .slower = own / usual, .waited_s = waited};
  }
  return found;
}

std::optional<std::string> straggler_advice(const EpochMetrics& metrics, bool may_split) {
  if (!metrics.straggler) return std::nullopt;
  const Straggler& straggler = *metrics.straggler;
  const DeviceMetrics& device = metrics.devices[static_cast<size_t>(straggler.rank)];
  return fmt::format(
      "rank {} ({} on {}) computed {:.1f} times as long as the others, which waited for it for {:.2f} of the last "
      "epoch's {:.2f} s; see what else runs there{}",
      straggler.rank, device.device, device.host, straggler.slower, straggler.waited_s, metrics.train.seconds,
      may_split ? ", or share batches out by speed with split: auto" : "");
}

}  // namespace dptrain::train
