#include "train/summary.h"

#include <nlohmann/json.hpp>

#include "base/host_name.h"
#include "base/sha256.h"
#include "device/cpu_bf16.h"
#include "device/host_machine.h"
#include "train/best_link.h"
#include "train/fault_spec.h"
#include "train/strategy_choice_json.h"

namespace dptrain::train {

namespace {

nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

nlohmann::ordered_json best_json(const TrainingOutcome& outcome) {
  const auto& best = outcome.best;
  if (!best) return nullptr;
  const auto line = nlohmann::ordered_json::parse(best->line);
  return {{"epoch", best->epoch},
          {"step", best->step},
          {"validation", line.at("validation")},
          {"test", line.at("test")},
          {"weights_hash", line.at("weights_hash")},
          {"checkpoint", text_or_null(outcome.best_is_linked ? best_link("checkpoints").string() : "")}};
}

}  // namespace

std::string process_record(const Experiment& experiment, const Datasets& data) {
  using nlohmann::ordered_json;
  ordered_json devices = ordered_json::array();
  for (const DeviceId& device : experiment.devices) devices.push_back(device.name());
  const ordered_json record = {{"process", experiment.job != nullptr ? experiment.job->group.process() : 0},
                               {"host", host_name()},
                               {"cpu", cpu_model_name()},
                               {"instructions", cpu_instructions()},
                               {"cores", usable_cores()},
                               {"devices", devices},
                               {"threads", experiment.threads},
                               {"dataset",
                                {{"read_bytes", data.train->read_bytes() + data.test->read_bytes()},
                                 {"held_bytes", data.train->held_bytes() + data.test->held_bytes()}}}};
  return record.dump();
}

std::string summary_json(const Experiment& experiment, const TrainingOutcome& outcome, int exit_code,
                         const Environment& environment, const std::string& resolved_config) {
  using nlohmann::ordered_json;
  const std::vector<std::string> devices = experiment.device_names();
  ordered_json processes = ordered_json::array();
  for (const std::string& process : environment.processes) processes.push_back(ordered_json::parse(process));
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
      {"stopped_early", outcome.stopped_early},
      {"faults", fault_texts(experiment.faults)},
      {"best", best_json(outcome)},
      {"final", outcome.last_line.empty() ? ordered_json(nullptr) : ordered_json::parse(outcome.last_line)},
      {"environment",
       {{"dptrain", environment.version},
        {"commit", environment.commit},
        {"libraries", environment.libraries},
        {"cpu", cpu_model_name()},
        {"instructions", cpu_instructions()},
        {"cores", usable_cores()},
        {"devices", devices},
        {"threads", experiment.threads},
        {"gradient_sums",
         {{"between_devices", text_or_null(outcome.sum_ways.between_devices)},
          {"between_processes", text_or_null(outcome.sum_ways.between_processes)}}},
        {"processes", processes}}},
      {"config_hash", sha256_of(resolved_config)}};
  return summary.dump(2);
}

}  // namespace dptrain::train
