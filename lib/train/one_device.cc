#include "train/one_device.h"

#include <fmt/format.h>

#include <numeric>

#include "config/config_document.h"
#include "train/experiment.h"

namespace dptrain::train {
namespace {

constexpr const char* kOrigin = "strategy single";

bool names_single(const ConfigNode* strategy) {
  if (strategy == nullptr) return false;
  const ConfigNode* name = strategy->kind == ConfigNode::Kind::map ? strategy->find("name") : strategy;
  return name != nullptr && name->kind == ConfigNode::Kind::scalar && name->scalar == "single";
}

}  // namespace

ConfigNode on_one_device(ConfigNode config, const std::string& default_name) {
  if (!names_single(config.find("strategy"))) return config;
  // What the list resolves to is read under a strategy that takes any number of devices.
  ConfigNode listed = config;
  override_config(listed, "strategy=ddp", kOrigin);
  Experiment whole;
  const ConfigSession session(listed, [&](ConfigReader& reader) { whole = read_experiment(reader, default_name); });
  if (whole.devices.size() == 1) return config;
  const int threads = std::accumulate(whole.threads.begin(), whole.threads.end(), 0);
  override_config(config, fmt::format("devices='{}'", whole.devices.front().name()), kOrigin);
  override_config(config, fmt::format("threads={}", threads), kOrigin);
  override_config(config, fmt::format("batch_size={}", whole.batch_size), kOrigin);
  override_config(config, "per_device_batch_size=", kOrigin);
  override_config(config, "split=even", kOrigin);
  // One device sends nothing, and links may name others.
  override_config(config, "links=", kOrigin);
  return config;
}

}  // namespace dptrain::train
