#include "train/summary.h"

#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "device/cpu_amx.h"
#include "device/cpu_device.h"
#include "train/strategy_choice_json.h"

namespace dptrain::train {

std::string summary_json(const Experiment& experiment, const TrainingOutcome& outcome, int exit_code,
                         const Environment& environment, const std::string& resolved_config) {
  using nlohmann::ordered_json;
  const std::vector<std::string> devices = experiment.device_names();
  const ordered_json summary = {
      {"schema", 1},
      {"run", experiment.name},
      {"exit", exit_code},
      {"seconds", outcome.seconds},
      {"epochs", outcome.epochs},
      {"steps", outcome.steps},
      {"strategy", experiment.strategy.name},
      {"strategy_trials",
       experiment.choice ? ordered_json::parse(choice_json(*experiment.choice)) : ordered_json(nullptr)},
      {"weights_hash", outcome.weights_hash},
      {"final", outcome.last_epoch ? ordered_json::parse(outcome.last_epoch->json()) : ordered_json(nullptr)},
      {"environment",
       {{"dptrain", environment.version},
        {"commit", environment.commit},
        {"libraries", environment.libraries},
        {"cpu", cpu_model_name()},
        {"instructions", cpu_instructions()},
        {"cores", usable_cores()},
        {"devices", devices},
        {"threads", experiment.threads}}},
      {"config_hash", sha256_of(resolved_config)}};
  return summary.dump(2);
}

}  // namespace dptrain::train
