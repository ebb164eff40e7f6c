#include "train/one_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "config/config_document.h"
#include "device/host_machine.h"

namespace dptrain::train {
namespace {

constexpr const char* kFromSingle = "strategy single";

bool names_single(const ConfigNode* strategy) {
  if (strategy == nullptr) return false;
  const ConfigNode* name = strategy->kind == ConfigNode::Kind::map ? strategy->find("name") : strategy;
  return name != nullptr && name->kind == ConfigNode::Kind::scalar && name->scalar == "single";
}

void put_on(ConfigNode& config, const DeviceId& device, int threads, int64_t batch_size) {
  override_config(config, fmt::format("devices='{}'", device.name()), kFromSingle);
  override_config(config, fmt::format("threads={}", threads), kFromSingle);
  override_config(config, fmt::format("batch_size={}", batch_size), kFromSingle);
  override_config(config, "per_device_batch_size=", kFromSingle);
  override_config(config, "split=even", kFromSingle);
  // One device sends nothing, and links may name other devices.
  override_config(config, "links=", kFromSingle);
}

}  // namespace

ConfigNode on_one_device(ConfigNode config, const std::string& default_name) {
  if (!names_single(config.find("strategy"))) return config;
  // Reads the list under a strategy that takes any number of devices, to resolve it.
  ConfigNode listed = config;
  override_config(listed, "strategy=ddp", kFromSingle);
  Experiment whole;
  const ConfigSession session(listed, [&](ConfigReader& reader) { whole = read_experiment(reader, default_name); });
  if (whole.devices.size() == 1) return config;
  int threads = std::accumulate(whole.threads.begin(), whole.threads.end(), 0);
  // If there are more workers than cores, each has one thread by default. As many threads on one device would only slow
  // each other down, and other runs would look fast in comparison.
  const ConfigNode* written = config.find("threads");
  if (written == nullptr || written->kind == ConfigNode::Kind::null) threads = std::min(threads, usable_cores());
  put_on(config, whole.devices.front(), threads, whole.batch_size);
  return config;
}

ConfigNode on_device_alone(ConfigNode config, const Experiment& whole, size_t device) {
  const BatchSplit even = BatchSplit::even(static_cast<int>(whole.devices.size()));
  const auto [first, second] = whole.split.weights.value_or(even).range(static_cast<int>(device), whole.batch_size);
  override_config(config, "strategy=single", kFromSingle);
  override_config(config, "shards=", kFromSingle);
  put_on(config, whole.devices[device], whole.threads[device], std::max<int64_t>(1, second - first));
  return config;
}

}  // namespace dptrain::train
