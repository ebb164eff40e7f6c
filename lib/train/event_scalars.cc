#include "train/event_scalars.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace dptrain::train {
namespace {

void add_pass(std::vector<TaggedScalar>& scalars, const std::string& group, const Pass& pass) {
  scalars.push_back({group + "loss", pass.score.mean_loss()});
  scalars.push_back({group + "accuracy", pass.score.accuracy()});
  for (const auto& [name, loss] : output_losses(pass.score)) scalars.push_back({group + name, loss});
}

int64_t largest_peak(const std::vector<DeviceMetrics>& devices) {
  int64_t peak = 0;
  for (const DeviceMetrics& device : devices) peak = std::max(peak, device.peak_bytes);
  return peak;
}

}  // namespace

std::vector<TaggedScalar> step_scalars(const std::string& line) {
  std::vector<TaggedScalar> scalars;
  const auto of_step = nlohmann::ordered_json::parse(line);
  for (const auto& [key, value] : of_step.items())
    if (value.is_number() && key != "step" && key != "epoch" && key != "samples")
      scalars.push_back({"steps/" + key, value});
  return scalars;
}

std::vector<TaggedScalar> epoch_scalars(const EpochMetrics& metrics, Precision precision) {
  std::vector<TaggedScalar> scalars;
  add_pass(scalars, "train/", metrics.train);
  if (metrics.validation) add_pass(scalars, "validation/", *metrics.validation);
  if (metrics.test) add_pass(scalars, "test/", *metrics.test);
  const TimeShares& time = metrics.time;
  for (const auto& [tag, value] : {std::pair("learning_rate", metrics.learning_rate),
                                   {"samples_per_s", metrics.train.samples_per_s()},
                                   {"time/compute_s", time.compute_s},
                                   {"time/exposed_comm_s", time.exposed_comm_s},
                                   {"time/data_wait_s", time.data_wait_s},
                                   {"time/optimizer_s", time.optimizer_s},
                                   {"time/other_s", time.other_s},
                                   {"comm/bytes", static_cast<double>(metrics.comm_bytes)},
                                   {"memory/peak_bytes", static_cast<double>(largest_peak(metrics.devices))},
                                   {"memory_imbalance", metrics.memory_imbalance()}})
    scalars.push_back({tag, value});
  if (precision == Precision::fp16) scalars.push_back({"skipped_steps", static_cast<double>(metrics.skipped_steps)});
  if (const auto scale = metrics.train.score.noise.scale()) scalars.push_back({"gradient_noise/scale", *scale});
  if (metrics.staleness) {
    scalars.push_back({"staleness/mean", metrics.staleness->mean()});
    scalars.push_back({"staleness/max", static_cast<double>(metrics.staleness->max())});
  }
  return scalars;
}

}  // namespace dptrain::train
